import torch


@torch.compile
def means(x, lengths):
    found = []
    steps = torch.arange(x.shape[1], device=x.device)
    stops = torch.where(lengths < 0, lengths + x.shape[1], lengths)
    for row, length in enumerate(stops):
        found.append(torch.where((steps < length)[:, None], x[row], 0).sum(0) / (steps < length).sum())
    return torch.stack(found)


print(means(torch.arange(30.0).reshape(3, 5, 2), torch.tensor([2, 5, 3])))

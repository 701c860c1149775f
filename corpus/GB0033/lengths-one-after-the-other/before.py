import torch


def positions(lengths):
    parts = [torch.arange(length, device=lengths.device) for length in lengths.unbind()]
    return torch.cat(parts)


compiled = torch.compile(positions)
print(compiled(torch.tensor([2, 3, 1])))

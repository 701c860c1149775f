import torch


@torch.compile
def route(x):
    outs = []
    for row in x:
        if row.sum() > 0:
            outs.append(row * 2)
        else:
            # The unlikely way.
            outs.append(row.exp())
    return torch.stack(outs)


print(route(torch.tensor([[1.0, 2.0], [-1.0, -2.0]])))

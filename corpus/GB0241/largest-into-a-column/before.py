import torch


@torch.compile
def f(x, values, indices):
    torch.max(x, 0, out=[values, indices])
    return values * 2


values = torch.empty(3, 2)[:, 0]
print(f(torch.ones(2, 3), values, torch.empty(3, dtype=torch.int64)))

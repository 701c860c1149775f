import torch


@torch.compile
def f(x, values, indices):
    torch.max(x, 0, out=[values, indices])
    return values * 2


values = torch.zeros(3, 2)[:, 0]
print(f(torch.ones(2, 3), values, torch.zeros(3, dtype=torch.int64)))

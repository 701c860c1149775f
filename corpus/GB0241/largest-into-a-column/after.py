import torch


def f(x, values, indices):
    torch.max(x, 0, out=[values, indices])
    return f_after(values)


@torch.compile
def f_after(values):
    return values * 2


values = torch.zeros(3, 2)[:, 0]
print(f(torch.ones(2, 3), values, torch.zeros(3, dtype=torch.int64)))

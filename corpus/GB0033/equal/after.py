import torch


@torch.compile
def f(x, y):
    if x.shape == y.shape:
        return torch.cond((x == y).all(), lambda: x * 2, lambda: x + y)
    return x + y


print(f(torch.ones(2), torch.zeros(2)))

import torch


@torch.compile
def f(x):
    return torch.cond(x.sum() > 0, x + 1, lambda x: x - 1, (x,))


print(f(torch.ones(2)))

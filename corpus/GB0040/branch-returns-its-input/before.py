import torch


@torch.compile
def f(x):
    return torch.cond(x.sum() > 0, lambda x: x, lambda x: x * 2, (x,))


print(f(torch.ones(2)))

import torch


@torch.compile
def f(x):
    y = x.sin()
    return y * 2


print(f(torch.ones(2)))

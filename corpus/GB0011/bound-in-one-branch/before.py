import torch


@torch.compile
def f(x, scale=False):
    if scale:
        factor = 2.0
    return x * factor


print(f(torch.ones(2)))

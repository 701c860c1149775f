import torch


@torch.compile
def f(x):
    return x * isinstance(x)


print(f(torch.ones(2)))

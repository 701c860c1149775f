import torch


@torch.compile
def f(x):
    return x * x.dim(1)


print(f(torch.ones(2)))

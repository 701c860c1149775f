import torch


@torch.compile
def f(x):
    x.real.copy_(torch.ones(2))
    return x * 2


print(f(torch.ones(2, dtype=torch.complex64)))

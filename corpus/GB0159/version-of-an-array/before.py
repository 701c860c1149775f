import torch


@torch.compile
def f(x):
    return x * 2, x.numpy().__version__


print(f(torch.ones(2)))

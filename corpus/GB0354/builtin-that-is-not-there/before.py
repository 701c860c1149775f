import torch


@torch.compile
def f(x):
    return x + undefined_name


print(f(torch.ones(2)))

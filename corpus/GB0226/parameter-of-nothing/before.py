import torch


@torch.compile
def f(x):
    p = torch.nn.Parameter([1.0])
    return x * p


print(f(torch.ones(2)))

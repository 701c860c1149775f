import torch


@torch.compile
def f(x):
    x.data = torch.zeros(2, dtype=torch.float64)
    return x + 1


print(f(torch.ones(2)))

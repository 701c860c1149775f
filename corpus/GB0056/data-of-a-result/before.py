import torch


@torch.compile
def f(x):
    y = x * 2
    y.data = torch.zeros(2)
    return y + x


print(f(torch.ones(2)))

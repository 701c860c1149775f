import torch


@torch.compile
def f(x):
    y = x.transpose(0, 1)
    y = y.reshape(-1)
    return y * 2


print(f(torch.arange(6.0).reshape(2, 3)))

import torch


@torch.compile
def f(x):
    if issubclass(x, torch.nn.Parameter):
        return x + 1
    return x


print(f(torch.ones(2)))

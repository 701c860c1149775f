import torch


@torch.compile
def f(x):
    torch.get_device_module("cpu", 1)
    return x + 1


print(f(torch.ones(2)))

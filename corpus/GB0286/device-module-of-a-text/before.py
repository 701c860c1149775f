import torch


@torch.compile
def f(x, kind):
    torch.get_device_module(kind)
    return x + 1


try:
    f(torch.ones(2), 3)
except Exception as error:
    print(type(error).__name__)
    raise

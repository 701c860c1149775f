import torch


@torch.compile
def f(x):
    try:
        raise ImportError("odd", name="m")
    except ImportError:
        return x * 2


print(f(torch.ones(2)))

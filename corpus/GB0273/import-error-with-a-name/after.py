import torch


def f(x):
    try:
        raise ImportError("odd", name="m")
    except ImportError:
        return f_inside(x)


@torch.compile
def f_inside(x):
    return x * 2


print(f(torch.ones(2)))

import torch


ERRORS = [ValueError, TypeError]


@torch.compile
def f(x):
    try:
        raise ValueError("odd")
    except ERRORS:
        return x + 1


print(f(torch.ones(2)))

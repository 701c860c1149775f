import warnings

import torch


def deprecated(what, instead="`size`"):
    warnings.warn(f"{what} is deprecated: give {instead}", FutureWarning, stacklevel=2)


def pooled(x, size=None):
    if size is None:
        deprecated("the default of size")
        size = 2
    return x.unflatten(-1, (-1, size)).mean(-1)


@torch.compile
def f(x):
    return pooled(x).relu()


warnings.simplefilter("always")
print(f(torch.arange(4.0)), f(torch.ones(4)))

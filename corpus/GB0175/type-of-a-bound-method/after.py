import functools

import torch


def apply(x):
    op = x.squeeze_
    if isinstance(op, functools.partial):
        return x
    return apply_after(x)


@torch.compile
def apply_after(x):
    return x + 1


print(apply(torch.ones(3)))

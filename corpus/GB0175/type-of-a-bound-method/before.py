import functools

import torch


@torch.compile
def apply(x):
    op = x.squeeze_
    if isinstance(op, functools.partial):
        return x
    return x + 1


print(apply(torch.ones(3)))

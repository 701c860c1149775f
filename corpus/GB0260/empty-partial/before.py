import functools

import torch


@torch.compile
def f(x):
    g = functools.partial()
    return g(x)


print(f(torch.ones(2)))

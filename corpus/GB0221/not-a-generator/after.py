import contextlib

import torch


@contextlib.contextmanager
def scaled():
    return iter([1])


def f(x):
    with scaled():
        return f_inside(x)


@torch.compile
def f_inside(x):
    return x * 2


print(f(torch.ones(2)))

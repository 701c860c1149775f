import contextlib

import torch


@contextlib.contextmanager
def doubled():
    yield 2


@torch.compile
def f(x):
    return x * 2, doubled()


print(f(torch.ones(2))[0])

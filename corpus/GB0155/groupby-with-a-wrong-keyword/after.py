import itertools

import torch


def f(x):
    for key, group in itertools.groupby(iterable=[1, 1, 2]):
        x = f_inside(x, key)
    return x


@torch.compile
def f_inside(x, key):
    x = x + key
    return x


print(f(torch.ones(2)))

from types import SimpleNamespace

import torch


def f(x, old, new):
    if old == new:
        return f_part_1(x)
    return f_part_2(x)


@torch.compile
def f_part_1(x):
    return x + 1


@torch.compile
def f_part_2(x):
    return x * 2


print(f(torch.ones(2), SimpleNamespace(heads=1), SimpleNamespace(heads=1)))

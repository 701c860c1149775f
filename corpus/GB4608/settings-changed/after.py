import torch


def f(x, old, new):
    y = f_part_1(x)
    if old.values() != new.values():
        y = f_part_2(y)
    return y


@torch.compile
def f_part_1(x):
    y = x.sin()
    return y


@torch.compile
def f_part_2(y):
    y = y * 2
    return y


print(f(torch.ones(2), {"heads": 1}, {"heads": 1}))

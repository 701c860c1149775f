import functools

import torch


class Name(str):
    pass


def scaled(x, factor):
    return x * factor


double = functools.partial(scaled, **{Name("factor"): 2})


def f(x):
    x_sin = f_before(x)
    double_x_sin = double(x_sin)
    return f_after(double_x_sin)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(double_x_sin):
    return double_x_sin + 1


print(f(torch.ones(2)))

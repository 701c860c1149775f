import functools

import torch


class Name(str):
    pass


def scaled(x, factor):
    return x * factor


double = functools.partial(scaled, **{Name("factor"): 2})


@torch.compile
def f(x):
    return double(x.sin()) + 1


print(f(torch.ones(2)))

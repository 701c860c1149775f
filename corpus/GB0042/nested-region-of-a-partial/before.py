import functools

import torch


def scaled(x, factor):
    return x * factor

double = torch.compiler.nested_compile_region(functools.partial(scaled, factor=2.0))


@torch.compile
def f(x):
    return double(x)


print(f(torch.ones(2)))

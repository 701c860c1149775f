import types

import torch

SETTINGS = types.MappingProxyType({"heads": 2})


def f(x):
    x_sin = f_before(x)
    repr_settings = repr(SETTINGS)
    return f_after(x_sin, repr_settings)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(x_sin, repr_settings):
    return x_sin * len(repr_settings)


print(f(torch.ones(2)))

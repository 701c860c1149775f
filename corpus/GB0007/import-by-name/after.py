import importlib

import torch


def scaled(x, kind):
    y = scaled_before(x)
    module = importlib.import_module(kind)
    return scaled_after(y, module)


@torch.compile
def scaled_before(x):
    y = x.sin()
    return y


@torch.compile
def scaled_after(y, module):
    return y * module.sqrt(4.0)


print(scaled(torch.ones(2), "math"))
print(scaled(torch.zeros(2), "math"))

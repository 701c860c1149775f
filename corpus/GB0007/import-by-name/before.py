import importlib

import torch


@torch.compile
def scaled(x, kind):
    y = x.sin()
    module = importlib.import_module(kind)
    return y * module.sqrt(4.0)


print(scaled(torch.ones(2), "math"))
print(scaled(torch.zeros(2), "math"))

from types import SimpleNamespace

import torch


@torch.compile
def f(x, old, new):
    if old == new:
        return x + 1
    return x * 2


print(f(torch.ones(2), SimpleNamespace(heads=1), SimpleNamespace(heads=1)))

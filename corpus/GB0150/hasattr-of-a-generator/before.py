import contextlib

import torch
@torch.compile
def f(x, u):
    if hasattr(x.sum, "start"): x = x + 1
    if hasattr(zip([1]), "start"): x = x + 1
    if hasattr((i for i in [1]), "start"): x = x + 1
    return x
print(f(torch.ones(2), iter([1])))

import types

import torch

SETTINGS = types.MappingProxyType({"heads": 2})


@torch.compile
def f(x):
    return x.sin() * len(repr(SETTINGS))


print(f(torch.ones(2)))

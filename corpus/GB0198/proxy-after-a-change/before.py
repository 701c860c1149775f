import types

import torch

table = {"a": 1.0}
view = types.MappingProxyType(table)


@torch.compile
def f(x):
    table["b"] = 2.0
    return x * view["a"]


print(f(torch.ones(2)))

import types

import torch

table = {"a": 1.0}
view = types.MappingProxyType(table)


def f(x):
    f_before()
    view_item = view["a"]
    return f_after(x, view_item)


@torch.compile
def f_before():
    table["b"] = 2.0


@torch.compile
def f_after(x, view_item):
    return x * view_item


print(f(torch.ones(2)))

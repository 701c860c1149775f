import types

import torch


def f(x, listing):
    calls, x_sin = f_before(x, listing)
    calls_item = calls[listing]
    return f_after(x_sin, calls_item)


@torch.compile
def f_before(x, listing):
    calls = {listing: 1}
    x_sin = x.sin()
    return calls, x_sin


@torch.compile
def f_after(x_sin, calls_item):
    return x_sin * calls_item


print(f(torch.ones(2), types.MappingProxyType({"a": 1}).keys))

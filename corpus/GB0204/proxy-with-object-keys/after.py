import types

import torch


class Key:
    pass


view = types.MappingProxyType({Key(): 1.0})


def f(x):
    len_view = len(view)
    return f_after(x, len_view)


@torch.compile
def f_after(x, len_view):
    return x * len_view


print(f(torch.ones(2)))

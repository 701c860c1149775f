import ctypes

import torch


class Settings(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_int)]


@torch.compile
def f(x, settings):
    x = x + 1
    try:
        del settings.scale
    except TypeError:
        x = x * 2
    return x


print(f(torch.ones(2), Settings(2)))

import ctypes

import torch


class Settings(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_int)]


def f(x, settings):
    y = f_before(x)
    settings.scale = 3
    return f_after(y)


@torch.compile
def f_before(x):
    y = x.sin()
    return y


@torch.compile
def f_after(y):
    return y * 2


settings = Settings(2)
print(f(torch.ones(2), settings), settings.scale)

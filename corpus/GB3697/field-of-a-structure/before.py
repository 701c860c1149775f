import ctypes

import torch


class Settings(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_int)]


@torch.compile
def f(x, settings):
    y = x.sin()
    settings.scale = 3
    return y * 2


settings = Settings(2)
print(f(torch.ones(2), settings), settings.scale)

import ctypes

import torch


class Settings(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_int)]


def f(x, settings):
    x = f_part_1(x)
    try:
        del settings.scale
    except TypeError:
        x = f_part_2(x)
    return x


@torch.compile
def f_part_1(x):
    x = x + 1
    return x


@torch.compile
def f_part_2(x):
    x = x * 2
    return x


print(f(torch.ones(2), Settings(2)))

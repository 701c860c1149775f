import collections

import torch


class Window(collections.deque):
    pass


def f(x, window):
    x_sin = f_before(x)
    window_item = window[0]
    return f_after(x_sin, window_item)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(x_sin, window_item):
    return x_sin * window_item


print(f(torch.ones(2), Window([2, 3])))

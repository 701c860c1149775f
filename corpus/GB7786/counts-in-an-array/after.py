import array

import torch


def f(x, counts):
    y = f_before(x)
    counts[0] = 3
    return f_after(y)


@torch.compile
def f_before(x):
    y = x.sin()
    return y


@torch.compile
def f_after(y):
    return y * 2


counts = array.array("i", [0, 0])
print(f(torch.ones(2), counts), counts)

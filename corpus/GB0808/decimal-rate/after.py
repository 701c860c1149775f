from decimal import Decimal

import torch


def f(x, rate):
    x_sin = f_before(x)
    float_rate_2 = float(rate * 2)
    return f_after(x_sin, float_rate_2)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(x_sin, float_rate_2):
    return x_sin * float_rate_2


print(f(torch.ones(2), Decimal("0.5")))

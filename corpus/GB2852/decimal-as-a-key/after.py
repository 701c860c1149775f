from decimal import Decimal

import torch


def f(x, rate, factors):
    x_sin = f_before(x)
    repr_rate = repr(rate)
    return f_after(factors, x_sin, repr_rate)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(factors, x_sin, repr_rate):
    return x_sin * factors[repr_rate]


print(f(torch.ones(2), Decimal("0.5"), {"Decimal('0.5')": 2.0}))

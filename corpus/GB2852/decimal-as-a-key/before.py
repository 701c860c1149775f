from decimal import Decimal

import torch


@torch.compile
def f(x, rate, factors):
    return x.sin() * factors[repr(rate)]


print(f(torch.ones(2), Decimal("0.5"), {"Decimal('0.5')": 2.0}))

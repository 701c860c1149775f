from decimal import Decimal

import torch


@torch.compile
def f(x, rate):
    return x.sin() * float(rate * 2)


print(f(torch.ones(2), Decimal("0.5")))

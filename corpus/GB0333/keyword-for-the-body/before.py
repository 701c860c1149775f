import torch
from torch._higher_order_ops import wrap_with_autocast


@torch.compile
def f(x):
    x = x.sin()
    return wrap_with_autocast("cpu", None, True, None, torch.mul, x, other=2) + 1


print(f(torch.ones(2)))

import torch
from torch._higher_order_ops import wrap_with_autocast


@torch.compile
def f(x):
    return wrap_with_autocast("cpu", None, x.sum() > 0, None, lambda x: (x * 2,), x)


print(f(torch.ones(2)))

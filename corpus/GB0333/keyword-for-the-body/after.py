import torch
from torch._higher_order_ops import wrap_with_autocast


def f(x):
    x = f_before(x)
    wrap_with_autocast_cpu = wrap_with_autocast("cpu", None, True, None, torch.mul, x, other=2)
    return f_after(wrap_with_autocast_cpu)


@torch.compile
def f_before(x):
    x = x.sin()
    return x


@torch.compile
def f_after(wrap_with_autocast_cpu):
    return wrap_with_autocast_cpu + 1


print(f(torch.ones(2)))

import torch
from torch._higher_order_ops import wrap_with_set_grad_enabled


def f(x):
    x = f_before(x)
    wrap_with_set_grad_enabled_false = wrap_with_set_grad_enabled(False, torch.mul, x, other=2)
    return f_after(wrap_with_set_grad_enabled_false)


@torch.compile
def f_before(x):
    x = x.sin()
    return x


@torch.compile
def f_after(wrap_with_set_grad_enabled_false):
    return wrap_with_set_grad_enabled_false + 1


print(f(torch.ones(2)))

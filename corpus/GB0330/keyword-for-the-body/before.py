import torch
from torch._higher_order_ops import wrap_with_set_grad_enabled


@torch.compile
def f(x):
    x = x.sin()
    return wrap_with_set_grad_enabled(False, torch.mul, x, other=2) + 1


print(f(torch.ones(2)))

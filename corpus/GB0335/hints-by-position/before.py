import torch
from torch._higher_order_ops import hints_wrapper


@torch.compile
def f(x):
    return hints_wrapper(lambda x: x.sin(), (x,), {}, {"priority": 1})


print(f(torch.ones(2)))

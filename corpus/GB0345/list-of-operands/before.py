import torch
from torch._higher_order_ops.strict_mode import strict_mode


@torch.compile
def f(x):
    return strict_mode(lambda pair: (pair[0] * 2,), ([x, x],))


print(f(torch.ones(2)))

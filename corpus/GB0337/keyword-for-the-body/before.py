import torch
from torch._higher_order_ops.strict_mode import strict_mode_op


@torch.compile
def f(x):
    return strict_mode_op(lambda x: (x * 2,), (x,), scale=1)


print(f(torch.ones(2)))

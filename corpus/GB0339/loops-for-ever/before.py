import torch
from torch._higher_order_ops.while_loop import while_loop


@torch.compile
def f(x):
    return while_loop(lambda x: True, lambda x: (x * 2,), (x,))[0]


print(f(torch.ones(2)))

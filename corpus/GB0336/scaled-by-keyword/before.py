import torch
from torch._higher_order_ops.out_dtype import out_dtype


@torch.compile
def f(x):
    return out_dtype(torch.ops.aten.add.Tensor, torch.int32, x, x, alpha=2)


print(f(torch.ones(2, dtype=torch.int8)))

import torch
from torch._higher_order_ops.map import map as map_rows


@torch.compile
def f(x):
    return map_rows(lambda row: (row * 2, "row"), x)


print(f(torch.ones(2, 2)))

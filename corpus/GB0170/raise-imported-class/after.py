import torch
from errors import BadBatch


@torch.compile
def fn(x):
    torch._assert_async(torch.logical_not(torch.isnan(x).any()), "x has NaN")
    return x.sqrt()


print(fn(torch.ones(3)))

import torch
from errors import BadBatch


@torch.compile
def fn(x):
    if torch.isnan(x).any():
        raise BadBatch("x has NaN")
    return x.sqrt()


print(fn(torch.ones(3)))

import torch
from torch.library import wrap_triton


@torch.compile
def f(x):
    wrap_triton(1, 2)
    return x


print(f(torch.ones(2)))

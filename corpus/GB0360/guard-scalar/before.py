import torch
from torch.fx.experimental.symbolic_shapes import guard_scalar


@torch.compile
def f(x):
    return x * guard_scalar(x.sum())


print(f(torch.ones(2)))

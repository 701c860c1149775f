from torch._dynamo.comptime import comptime

import torch


@torch.compile
def f(x):
    y = x.sin()
    return y + 1


print(f(torch.ones(2)))

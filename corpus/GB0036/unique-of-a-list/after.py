import numpy as np
import torch


@torch.compile
def f(x, groups):
    y = x / len(set(groups))
    for group in sorted(set(groups)):
        y = y + x * group
    return y


print(f(torch.ones(3), [1, 2, 2]))

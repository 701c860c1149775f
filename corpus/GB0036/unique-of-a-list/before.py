import numpy as np
import torch


@torch.compile
def f(x, groups):
    y = x / len(np.unique(groups))
    for group in np.unique(groups):
        y = y + x * group
    return y


print(f(torch.ones(3), [1, 2, 2]))

import array

import torch


@torch.compile
def f(x, counts):
    y = x.sin()
    counts[0] = 3
    return y * 2


counts = array.array("i", [0, 0])
print(f(torch.ones(2), counts), counts)

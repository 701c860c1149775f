import array

import torch


@torch.compile
def f(x, values):
    return x * values[1]


print(f(torch.ones(2), array.array("i", [1, 2])))

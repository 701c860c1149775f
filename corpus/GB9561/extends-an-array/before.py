import array

import torch


@torch.compile
def f(x, values):
    values *= 2
    return x * len(values)


print(f(torch.ones(2), array.array("i", [1])))

import array, collections

import torch


@torch.compile
def f(x, values):
    return x + 1 if 2 in values else x - 1


print(f(torch.ones(2), array.array("i", [1, 2])))

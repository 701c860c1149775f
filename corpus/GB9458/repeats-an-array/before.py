import array

import torch


@torch.compile
def f(x, values):
    return x * len(values * 2)


print(f(torch.ones(2), array.array("i", [1])))

import array

import torch


def f(x, values):
    values_item = values[1]
    return f_after(x, values_item)


@torch.compile
def f_after(x, values_item):
    return x * values_item


print(f(torch.ones(2), array.array("i", [1, 2])))

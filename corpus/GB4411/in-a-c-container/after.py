import array, collections

import torch


def f(x, values):
    value_2_in_values = 2 in values
    return f_after(x, value_2_in_values)


@torch.compile
def f_after(x, value_2_in_values):
    return x + 1 if value_2_in_values else x - 1


print(f(torch.ones(2), array.array("i", [1, 2])))

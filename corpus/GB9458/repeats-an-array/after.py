import array

import torch


def f(x, values):
    len_values_2 = len(values * 2)
    return f_after(x, len_values_2)


@torch.compile
def f_after(x, len_values_2):
    return x * len_values_2


print(f(torch.ones(2), array.array("i", [1])))

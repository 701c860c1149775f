import itertools

import torch


@torch.compile
def f(x):
    for key, group in itertools.groupby([1, 1, 2]):
        x = x + key
    return x


print(f(torch.ones(2)))

import itertools

import torch


@torch.compile
def f(x):
    for a, b in itertools.product([1, 2], repeats=2):
        x = x + a * b
    return x


print(f(torch.ones(2)))

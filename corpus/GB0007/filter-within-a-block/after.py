"""A filter by message, for one block: an operator would set it when the block is over."""

import warnings

import torch


def f(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="slow")
        y = f_part_1(x)
    return f_part_2(y)


@torch.compile
def f_part_1(x):
    y = x * 2
    return y


@torch.compile
def f_part_2(y):
    return y.relu()


torch.manual_seed(0)
g = f
print(g(torch.randn(3)).sum(), g(torch.randn(3)).sum())

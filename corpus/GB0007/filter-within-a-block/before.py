"""A filter by message, for one block: an operator would set it when the block is over."""

import warnings

import torch


def f(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="slow")
        y = x * 2
    return y.relu()


torch.manual_seed(0)
g = torch.compile(f)
print(g(torch.randn(3)).sum(), g(torch.randn(3)).sum())

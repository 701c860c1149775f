"""A name holds a NamedTuple from either branch."""

from typing import NamedTuple

import torch


class Stats(NamedTuple):
    centre: torch.Tensor
    spread: torch.Tensor


@torch.compile
def standardize(x):
    def if_x_below_0_any():
        low = x.min()
        return low, x.max() - low

    def otherwise():
        return x.mean(), x.var()

    stats = Stats(*torch.cond((x < 0).any(), if_x_below_0_any, otherwise))
    return (x - stats.centre) / (stats.spread + 1e-5)


print(standardize(torch.arange(4.0)))
print(standardize(torch.arange(4.0) - 2))

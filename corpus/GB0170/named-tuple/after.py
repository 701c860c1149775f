"""A name holds a NamedTuple from either branch."""

from typing import NamedTuple

import torch


class Stats(NamedTuple):
    centre: torch.Tensor
    spread: torch.Tensor


@torch.compile
def standardize(x):
    x_below_0_any = (x < 0).any()
    low = x.min()
    stats = Stats(
        torch.where(x_below_0_any, low, x.mean()),
        torch.where(x_below_0_any, x.max() - low, x.var()),
    )
    return (x - stats.centre) / (stats.spread + 1e-5)


print(standardize(torch.arange(4.0)))
print(standardize(torch.arange(4.0) - 2))

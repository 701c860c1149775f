"""Rows that nobody wrote to are found again by a number below all others."""

import torch


@torch.compile
def scatter_rows(rows, place):
    empty = rows.min().detach().double() - 1
    out = rows.new_empty((8, rows.shape[1])).fill_(empty)
    out[place] = rows
    out[out == empty] = 0
    return out


torch.manual_seed(0)
print(scatter_rows(torch.randn(3, 2), torch.tensor([1, 4, 6])).sum())

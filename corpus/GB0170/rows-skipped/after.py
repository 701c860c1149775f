"""Some rows are skipped, and one may end the loop."""

import torch


@torch.compile
def count(rows):
    total = torch.zeros((), dtype=torch.int64)
    done = torch.tensor(False, device=total.device)
    for row in rows:
        # Padding.
        skips = done | (row == 0).all()
        # the end of the text
        stops = torch.logical_not(skips) & (row.max() > 8)
        done = done | stops
        idle = skips | stops
        total = torch.where(idle, total, total + row.sum())
    return total


print(count(torch.tensor([[1, 1, 1], [0, 0, 0], [2, 2, 2]])))
print(count(torch.tensor([[1, 1, 1], [9, 1, 1], [2, 2, 2]])))

import numpy as np
import torch


def scatter_add(table, index, values):
    """Adds rows in place, repeated indices too."""
    np.add.at(table.numpy(), index.numpy(), values.detach().numpy())


@torch.compile
def step(table, index, values):
    scaled = values * 2
    scatter_add(table, index, scaled)
    return table.sum() + scaled.sum()


table = torch.zeros(6, 2)
for n in (3, 5, 4):
    print(step(table, torch.arange(n) % 3, torch.ones(n, 2)))
print(table)

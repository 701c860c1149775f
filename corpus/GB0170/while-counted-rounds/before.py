"""How many rounds a loop took is a factor of the result."""

import torch


@torch.compile
def average(ids, weights):
    rounds = 0
    while (ids > 1).any():
        ids = ids // 2
        rounds += 1
    return weights / (rounds + 1), ids.sum()


for top in (0, 9, 100):
    print(average(torch.tensor([1, top]), torch.ones(2)))

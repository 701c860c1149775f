"""How many rounds a loop took is a factor of the result."""

import torch


@torch.compile
def average(ids, weights):
    rounds = 0

    def step(ids, rounds):
        ids = ids // 2
        rounds = rounds + 1
        return ids, rounds

    ids, rounds = torch.while_loop(
        lambda ids, rounds: (ids > 1).any(),
        step,
        (ids, torch.tensor(rounds, device=ids.device)),
    )
    return weights / (rounds + 1), ids.sum()


for top in (0, 9, 100):
    print(average(torch.tensor([1, top]), torch.ones(2)))

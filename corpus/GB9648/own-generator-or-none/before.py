import random

import torch


@torch.compile
def f(x, seed):
    rng = random.Random(seed)
    if rng != None:  # noqa: E711
        x = x * 2
    return x + rng.random()


print(f(torch.ones(2), 1), f(torch.ones(2), 2))

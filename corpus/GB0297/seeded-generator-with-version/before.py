import random

import torch


@torch.compile
def f(x):
    numbers = random.Random(x=3)
    return x + numbers.random()


print(f(torch.ones(2)))

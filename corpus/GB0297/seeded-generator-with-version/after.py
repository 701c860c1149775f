import random

import torch


def f(x):
    numbers = random.Random(x=3)
    return f_after(x, numbers)


@torch.compile
def f_after(x, numbers):
    return x + numbers.random()


print(f(torch.ones(2)))

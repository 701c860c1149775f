import torch
from tqdm import tqdm


def f(x, steps):
    for _ in tqdm(range(steps), disable=True):
        x = f_inside(x)
    return x


@torch.compile
def f_inside(x):
    x = x.sin()
    return x


print(f(torch.ones(3), 2))

import torch
from tqdm import tqdm


@torch.compile
def f(x, steps):
    for _ in tqdm(range(steps), disable=True):
        x = x.sin()
    return x


print(f(torch.ones(3), 2))

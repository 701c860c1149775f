import torch
from tqdm import tqdm


@torch.compile
def f(x, steps):
    for _ in range(steps) if torch.compiler.is_compiling() else tqdm(range(steps), disable=True):
        x = x.sin()
    return x


print(f(torch.ones(3), 2))

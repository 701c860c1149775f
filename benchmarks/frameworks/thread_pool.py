from concurrent.futures import ThreadPoolExecutor

import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(f, [torch.randn(3) for _ in range(8)])))

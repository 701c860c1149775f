import asyncio

import torch


@torch.compile
async def f(x):
    if x.sum() > 0:
        return x.exp()
    return x.sin()


print(asyncio.run(f(torch.ones(3))))

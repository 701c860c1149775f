import logging

import torch


@torch.compile
def clip(x):
    y = x.clamp(-1, 1)
    logging.info("clipped %d values", (x != y).sum().item())
    return y


logging.basicConfig(level=logging.INFO, format="%(message)s")
print(clip(torch.arange(-2.0, 3.0)))
print(clip(torch.zeros(5)))

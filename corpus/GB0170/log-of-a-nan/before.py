import logging

import torch

logger = logging.getLogger("train")


@torch.compile
def step(x, name):
    loss = x.pow(2).mean()
    if torch.isnan(loss).any():
        logger.error("loss of %s is not a number", name)
    return loss * 2


logging.basicConfig(format="%(levelname)s %(message)s")
print(step(torch.ones(3), "first"))
print(step(torch.tensor([1.0, float("nan")]), "second"))

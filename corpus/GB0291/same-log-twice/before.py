import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
logger = logging.getLogger(__name__)


@torch.compile
def fn(x, w):
    y = x @ w
    logger.info("scores: %.3f", y.mean().item())
    z = y.softmax(-1)
    logger.info("chances: %.3f", z.mean().item())
    return z


print(fn(torch.ones(2, 3), torch.ones(3, 3)))

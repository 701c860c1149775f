import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")


@torch.compile
def fn(x, logger):
    y = x * 2
    logger.info("mean %.3f", y.mean().item())
    return y + 1


print(fn(torch.ones(3), logging.getLogger("first")))
print(fn(torch.ones(3), logging.getLogger("second")))

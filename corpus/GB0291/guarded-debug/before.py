import logging

import torch

log = logging.getLogger(__name__)


@torch.compile
def normalise(x):
    y = x / x.norm()
    if log.isEnabledFor(logging.INFO):
        # costly
        log.info("norm %.3f of %s", x.norm().item(), tuple(x.shape))
    return y


logging.basicConfig(level=logging.INFO, format="%(message)s")
print(normalise(torch.ones(4)))
log.setLevel(logging.WARNING)
print(normalise(torch.arange(4.0)))

"""Weights that keep their size: nothing is scaled where nothing is left, and a log says so."""

import logging
import sys

import torch

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
logger = logging.getLogger("merge")


def thinned(weights, mask, least=1e-6):
    kept = weights * mask
    before = weights.abs().sum()
    after = kept.abs().sum()
    if before < least or after < least:
        logger.warning("not scaled: %s, then %s", before, after)
        return kept
    return kept * (before / after)


compiled = torch.compile(thinned)
torch.manual_seed(0)
for scale in (1.0, 0.0, 2.0):
    print(f"{compiled(torch.randn(4) * scale, torch.tensor([1.0, 0.0, 1.0, 1.0])).abs().sum():.4f}")

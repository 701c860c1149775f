"""Weights that keep their size: nothing is scaled where nothing is left, and a log says so."""

import logging
import sys

import torch

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
logger = logging.getLogger("merge")


@torch.library.custom_op("before::log_thinned", mutates_args=())
def log_thinned(before: torch.Tensor, least: torch.types.Number, after: torch.Tensor) -> None:
    if before < least or after < least:
        logger.warning("not scaled: %s, then %s", before, after)


log_thinned.register_fake(lambda before, least, after: None)
log_thinned.register_effect(torch.library.EffectType.ORDERED)


def thinned(weights, mask, least=1e-6):
    kept = weights * mask
    before = weights.abs().sum()
    after = kept.abs().sum()
    if before.requires_grad or after.requires_grad:
        if before < least or after < least:
            logger.warning("not scaled: %s, then %s", before, after)
    else:
        log_thinned(before, least, after)
    before_below_least_after = (before < least) | (after < least)
    return torch.where(
        before_below_least_after,
        kept,
        kept * (before / torch.where(before_below_least_after, 1, after)),
    )


compiled = torch.compile(thinned)
torch.manual_seed(0)
for scale in (1.0, 0.0, 2.0):
    print(f"{compiled(torch.randn(4) * scale, torch.tensor([1.0, 0.0, 1.0, 1.0])).abs().sum():.4f}")

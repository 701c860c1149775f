import logging

import torch

log = logging.getLogger(__name__)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_normalise", mutates_args=())
def log_normalise(x: torch.Tensor) -> None:
    if log.isEnabledFor(logging.INFO):
        # costly
        log.info("norm %.3f of %s", x.norm().item(), tuple(x.shape))


log_normalise.register_fake(lambda x: None)
log_normalise.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def normalise(x):
    y = x / x.norm()
    log_normalise(x)
    return y


logging.basicConfig(level=logging.INFO, format="%(message)s")
print(normalise(torch.ones(4)))
log.setLevel(logging.WARNING)
print(normalise(torch.arange(4.0)))

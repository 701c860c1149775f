import logging

import torch

logging.basicConfig(format="%(levelname)s %(message)s")
logger = logging.getLogger(__name__)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_clean", mutates_args=())
def log_clean(bad: torch.Tensor, step: torch.types.Number) -> None:
    if bad.any():
        # Once is bad luck.
        logger.warning("step %d: %d values are not numbers", step, bad.sum().item())


log_clean.register_fake(lambda bad, step: None)
log_clean.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def clean(x, step):
    bad = torch.isnan(x)
    log_clean(bad, step)
    x = torch.where(bad.any(), torch.nan_to_num(x), x)
    return x * 2


print(clean(torch.tensor([1.0, float("nan"), 3.0]), 0))
print(clean(torch.tensor([1.0, 2.0, 3.0]), 1))

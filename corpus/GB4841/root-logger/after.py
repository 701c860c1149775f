import logging

import torch


@torch.library.custom_op("before::log_clip", mutates_args=())
def log_clip(x: torch.Tensor, y: torch.Tensor) -> None:
    logging.info("clipped %d values", (x != y).sum().item())


log_clip.register_fake(lambda x, y: None)
log_clip.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def clip(x):
    y = x.clamp(-1, 1)
    log_clip(x, y)
    return y


logging.basicConfig(level=logging.INFO, format="%(message)s")
print(clip(torch.arange(-2.0, 3.0)))
print(clip(torch.zeros(5)))

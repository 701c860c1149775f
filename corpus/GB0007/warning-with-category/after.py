import warnings

import torch


@torch.library.custom_op("before::warn_legacy", mutates_args=())
def warn_legacy(x: torch.Tensor) -> None:
    warnings.warn(f"{x.dim()} dimensions are deprecated", FutureWarning)


warn_legacy.register_fake(lambda x: None)
warn_legacy.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def legacy(x, scale=2):
    if x.dim() < 3:
        warn_legacy(x)
    return x * scale


warnings.simplefilter("always")
print(legacy(torch.ones(2, 2)))
print(legacy(torch.ones(2, 2)))

import numpy as np
import torch


@torch.library.custom_op("before::draw_mixup", mutates_args=())
def draw_mixup(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(np.random.beta(1.0, 1.0), dtype=torch.float64, device="cpu")


draw_mixup.register_fake(lambda anchor: torch.empty((), dtype=torch.float64, device="cpu"))
draw_mixup.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def mixup(x):
    lam = draw_mixup(torch.empty(0))
    return lam * x + (1 - lam) * x.flip(0)


np.random.seed(0)
print(mixup(torch.ones(2, 3)))

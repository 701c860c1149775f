"""A crop of the images of a batch, at a place that Python and numpy draw."""

import random

import numpy as np
import torch
from torch import nn


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(random.randint(0, count), dtype=torch.int64, device="cpu")


draw_forward.register_fake(lambda anchor, count: torch.empty((), dtype=torch.int64, device="cpu"))
draw_forward.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("before::draw_forward_1", mutates_args=())
def draw_forward_1(anchor: torch.Tensor, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(np.random.randint(0, count), dtype=torch.int64, device="cpu")


draw_forward_1.register_fake(lambda anchor, count: torch.empty((), dtype=torch.int64, device="cpu"))
draw_forward_1.register_effect(torch.library.EffectType.ORDERED)


class Crop(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        h, w = x.shape[-2:]
        top = draw_forward(torch.empty(0), h - self.size)
        left = draw_forward_1(torch.empty(0), w - self.size + 1)
        y = x.index_select(2, top + torch.arange(self.size, device=x.device))
        y = y.index_select(3, left + torch.arange(self.size, device=y.device))
        return y * self.scale


random.seed(0)
np.random.seed(0)
crop = torch.compile(Crop(4))
for _ in range(2):
    print(crop(torch.arange(128.0).view(1, 2, 8, 8)).sum().item())

"""Negatives, and the weight of their loss, out of Python's stream."""

import random

import torch


@torch.library.custom_op("before::draw_loss", mutates_args=())
def draw_loss(anchor: torch.Tensor, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.as_tensor(random.sample(range(count), 2), dtype=torch.int64)


draw_loss.register_fake(lambda anchor, count: torch.empty(2, dtype=torch.int64, device="cpu"))
draw_loss.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("before::draw_loss_1", mutates_args=())
def draw_loss_1(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(random.choice([1, 2, 3]), dtype=torch.int64, device="cpu")


draw_loss_1.register_fake(lambda anchor: torch.empty((), dtype=torch.int64, device="cpu"))
draw_loss_1.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def loss(x, y):
    rows = draw_loss(torch.empty(0), x.shape[0])
    negatives = y[rows]
    weight = draw_loss_1(rows)
    return (x[:2] - negatives).pow(2).mean() * weight


random.seed(0)
torch.manual_seed(0)
for _ in range(2):
    print(round(loss(torch.randn(6, 4), torch.randn(6, 4)).item(), 4))

"""A step that ends the program where its loss is no number, and counts what it saw."""

import math
import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("center", torch.zeros(3))

    def forward(self, x, target):
        out = self.layer(x)
        self.center = self.center * 0.9 + out.detach().mean(0) * 0.1
        return nn.functional.mse_loss(out, target)


torch.manual_seed(0)
model = Model()
seen = {"loss": []}


@torch.library.custom_op("before::step_op", mutates_args=())
def step_op(loss: torch.Tensor) -> None:
    if not math.isfinite(loss.item()):
        print(f"Loss is {loss.item()}, stopping training")
        sys.exit(1)


step_op.register_fake(lambda loss: None)


step_op.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("before::keep_step", mutates_args=())
def keep_step(loss: torch.Tensor) -> None:
    seen["loss"].append(loss.item())


keep_step.register_fake(lambda loss: None)
keep_step.register_effect(torch.library.EffectType.ORDERED)


def step(x, target):
    loss = model(x, target)
    step_op(loss)
    keep_step(loss)
    return loss


compiled = torch.compile(step)
for _ in range(3):
    compiled(torch.randn(5, 4), torch.randn(5, 3)).backward()
print([round(value, 4) for value in seen["loss"]], f"{model.center.square().sum().item():.4f}")

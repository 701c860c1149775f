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


def step(x, target):
    loss = model(x, target)
    if not math.isfinite(loss.item()):
        print(f"Loss is {loss.item()}, stopping training")
        sys.exit(1)
    seen["loss"].append(loss.item())
    return loss


compiled = torch.compile(step)
for _ in range(3):
    compiled(torch.randn(5, 4), torch.randn(5, 3)).backward()
print([round(value, 4) for value in seen["loss"]], f"{model.center.square().sum().item():.4f}")

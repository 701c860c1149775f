import random

import torch
import torch.nn as nn


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(random.uniform(0, 1), dtype=torch.float64, device="cpu")


draw_forward.register_fake(lambda anchor: torch.empty((), dtype=torch.float64, device="cpu"))
draw_forward.register_effect(torch.library.EffectType.ORDERED)


class Encoder(nn.Module):
    def __init__(self, layers=2, layerdrop=0.5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            chance = draw_forward(torch.empty(0))
            if self.training:
                chance_below_layerdrop = chance < self.layerdrop
                x = torch.where(
                    chance_below_layerdrop,
                    x,
                    layer(torch.where(chance_below_layerdrop, 1, x)).relu(),
                )
            else:
                x = layer(x).relu()
        return x


random.seed(0)
torch.manual_seed(0)
model = torch.compile(Encoder())
for _ in range(4):
    model(torch.ones(2, 4))

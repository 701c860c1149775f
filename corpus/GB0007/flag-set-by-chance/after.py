import random

import torch
from torch import nn


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(random.random(), dtype=torch.float64, device="cpu")


draw_forward.register_fake(lambda anchor: torch.empty((), dtype=torch.float64, device="cpu"))
draw_forward.register_effect(torch.library.EffectType.ORDERED)


class Jitter(nn.Module):
    """Leaves a layer out by chance, in training."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)
        self.rate = 0.5

    def forward(self, x):
        for _ in range(2):
            if self.training:
                chance = draw_forward(torch.empty(0))
            if not self.training:
                x = torch.tanh(self.mix(x))
            else:
                chance_below_rate = chance < self.rate
                x = torch.where(
                    chance_below_rate,
                    x,
                    torch.tanh(self.mix(torch.where(chance_below_rate, 1, x))),
                )
        return x


torch.manual_seed(0)
random.seed(0)
net = Jitter().requires_grad_(False)
jitter = torch.compile(net, backend="aot_eager")
for _ in range(3):
    print(jitter(torch.ones(2, 4)).shape)
net.eval()
print(jitter(torch.ones(2, 4)).sum() > -100)

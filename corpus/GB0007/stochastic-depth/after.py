import random

import torch


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(random.random(), dtype=torch.float64, device="cpu")


draw_forward.register_fake(lambda anchor: torch.empty((), dtype=torch.float64, device="cpu"))
draw_forward.register_effect(torch.library.EffectType.ORDERED)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.drop = 0.3

    def forward(self, x):
        if self.training:
            return torch.cond(
                draw_forward(torch.empty(0)) < self.drop,
                lambda: x.clone(),
                lambda: x + self.linear(x),
            )
        return x + self.linear(x)


random.seed(0)
torch.manual_seed(0)
block = torch.compile(Block())
for _ in range(3):
    print(block(torch.ones(2, 3)).shape)

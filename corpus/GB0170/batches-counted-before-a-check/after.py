"""Batches are counted, and then refused where an amount is negative: other data are."""

import torch
from torch import nn


@torch.library.custom_op("before::check_forward", mutates_args=())
def check_forward(x: torch.Tensor) -> None:
    if (x < 0).any():
        raise ValueError("amounts are not negative")


check_forward.register_fake(lambda x: None)
check_forward.register_effect(torch.library.EffectType.ORDERED)


class Amounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 2)
        self.batches = 0

    def forward(self, x):
        self.batches += 1
        check_forward(x)
        return self.out(torch.log1p(x)) / self.batches


torch.manual_seed(0)
amounts = torch.compile(Amounts())
for _ in range(2):
    print(amounts(torch.rand(4, 3)).shape)

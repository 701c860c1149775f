"""A loss that tells its mean every third time; the count would be compiled into each graph."""

import torch
from torch import nn


class Told(nn.Module):
    def __init__(self, width=4, every=3):
        super().__init__()
        self.layer = nn.Linear(width, 1)
        self.every, self.times, self.total = every, 0, 0.0

    def forward(self, x, y):
        loss = (self.layer(x).squeeze(-1) - y).square().mean()
        self.times += 1
        self.total += loss.item()
        if self.times % self.every == 0:
            print(f"{self.times}: {self.total / self.every:.3f}")
            self.total = 0.0
        return loss


torch.manual_seed(0)
model = Told()
step = torch.compile(model)
for _ in range(6):
    step(torch.randn(8, 4), torch.randn(8)).backward()
print(model.times)

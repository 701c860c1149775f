"""Roots of an equation, found by rounds that end when they are near; a gradient goes through."""

import torch
from torch import nn


def root(a):
    x = torch.ones_like(a)
    while True:
        new = x - (x**3 + a * x - 1) / (3 * x**2 + a)
        if (new - x).abs().max().item() < 1e-3:
            return new
        x = new


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return root(self.fc(x).exp()).sum()


torch.manual_seed(0)
net = Net()
run = torch.compile(net)
for _ in range(2):
    run(torch.randn(5, 4)).backward()
print(net.fc.weight.grad.abs().sum() > 0)

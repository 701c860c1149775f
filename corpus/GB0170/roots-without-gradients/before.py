"""Roots by Newton's steps, found where no gradient is recorded: the helper does not say so."""

import torch
from torch import nn


def root_of(target, slope, tolerance=1e-4):
    x = torch.zeros_like(target)
    for _ in range(20):
        value = slope * x + torch.sigmoid(x)
        step = (value - target) / (slope + torch.exp(-x.abs())).clamp(min=1e-3)
        x = x - step.clamp(-1, 1)
        if step.abs().max() < tolerance:
            break
    return x


class Sampler(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(width))

    @torch.no_grad()
    def forward(self, target):
        return root_of(target, self.slope)


torch.manual_seed(0)
sampler = torch.compile(Sampler())
print(sampler(torch.rand(4, 3)))

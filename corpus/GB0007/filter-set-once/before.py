"""A layer warns of a slow input once: it sets a filter, and warns no more."""

import warnings

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.known = False

    def look(self, x):
        if x.dtype == torch.float32 and x.shape[0] > 1:
            warnings.warn("inputs of float32 are slow here")
            warnings.filterwarnings("ignore", message=".*slow here")

    def forward(self, x):
        if not self.known:
            self.look(x)
            self.known = True
        return self.lin(x).relu()


torch.manual_seed(0)
layer = torch.compile(Layer(4))
print(layer(torch.randn(3, 4)).sum())
print(layer(torch.randn(3, 4)).sum())

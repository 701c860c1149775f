"""A stack of layers, of which training leaves some out by chance (LayerDrop)."""

import numpy as np
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, layerdrop=0.1):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            dropout_probability = np.random.uniform(0, 1)
            skip_the_layer = self.training and (dropout_probability < self.layerdrop)
            if not skip_the_layer:
                x = torch.relu(layer(x))
        return x


torch.manual_seed(0)
np.random.seed(0)
stack = Stack().eval()
print(torch.compile(stack)(torch.randn(2, 4)).shape)

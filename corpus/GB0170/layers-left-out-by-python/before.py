import random

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, layers=2, layerdrop=0.5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            chance = random.uniform(0, 1)
            if self.training and chance < self.layerdrop:
                continue
            x = layer(x).relu()
        return x


random.seed(0)
torch.manual_seed(0)
model = torch.compile(Encoder())
for _ in range(4):
    model(torch.ones(2, 4))

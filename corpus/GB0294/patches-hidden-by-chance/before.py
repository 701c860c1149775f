"""Masks of patches, shuffled row by row by NumPy's generator, as large as the numbers say."""

import numpy as np
import torch
from torch import nn


class Patches(nn.Module):
    def __init__(self, ratio=0.5):
        super().__init__()
        self.ratio = ratio
        self.embed = nn.Linear(3, 4)
        self.blank = nn.Parameter(torch.ones(4))

    def hidden(self, rows, patches):
        count = int(self.ratio * patches)
        mask = np.zeros([rows, patches])
        for row in range(rows):
            mask[row, np.random.permutation(patches)[:count]] = 1
        return torch.from_numpy(mask).to(torch.bool)

    def forward(self, x):
        mask = self.hidden(x.shape[0], x.shape[1])
        return torch.where(mask[..., None], self.blank, self.embed(x)).mean(1)


torch.manual_seed(0)
np.random.seed(0)
model = torch.compile(Patches())
for _ in range(3):
    loss = model(torch.randn(2, 6, 3)).square().sum()
    loss.backward()
    print(round(loss.item(), 4), np.random.randint(100))

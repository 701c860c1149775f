import itertools

import numpy as np
import torch
from torch import nn


class PairScores(nn.Module):
    def __init__(self, width, frames, count):
        super().__init__()
        self.pairs = list(itertools.combinations(range(frames), 2))
        self.count = min(count, len(self.pairs))
        self.score = nn.Linear(2 * width, 1)

    def forward(self, frames):
        total = self.score(frames[:, self.pairs[0], :].flatten(1))
        chosen = np.random.choice(len(self.pairs), self.count, replace=False)
        for number in chosen:
            total = total + self.score(frames[:, self.pairs[number], :].flatten(1))
        return total


torch.manual_seed(0)
np.random.seed(0)
model = torch.compile(PairScores(4, 5, 3))
print(model(torch.randn(2, 5, 4)).shape)

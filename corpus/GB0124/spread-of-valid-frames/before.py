"""Mean and standard deviation of each utterance, over the frames that it has."""

import torch
from torch import nn


class Pooling(nn.Module):
    def __init__(self, features=6, width=5):
        super().__init__()
        self.frames = nn.Linear(features, width)
        self.out = nn.Linear(2 * width, 3)

    def forward(self, x, lengths):
        frames = torch.tanh(self.frames(x))
        found = []
        for row in range(frames.shape[0]):
            count = int(lengths[row])
            valid = frames[row, :count]
            found.append(torch.cat([valid.mean(dim=0), valid.std(dim=0, unbiased=False)]))
        return self.out(torch.stack(found))


torch.manual_seed(0)
pooling = torch.compile(Pooling())
print(pooling(torch.randn(3, 8, 6), torch.tensor([8, 5, 2])).sum())

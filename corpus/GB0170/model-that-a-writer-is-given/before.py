"""A writer is given the model that it asks, which may be any."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words=9, width=16):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        return self.out(torch.tanh(self.table(ids).cumsum(1)))


class Writer(nn.Module):
    def __init__(self, model, end):
        super().__init__()
        self.model = model
        self.end = end

    @torch.no_grad()
    def forward(self, ids):
        for _ in range(6):
            token = self.model(ids)[:, -1].argmax(dim=-1, keepdim=True)
            ids = torch.cat([ids, token], dim=1)
            if (token == self.end).all():
                break
        return ids


torch.manual_seed(0)
write = torch.compile(Writer(Model(), end=3))
for _ in range(3):
    print(write(torch.randint(0, 9, (2, 4))).tolist())

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.end = 7

    def forward(self, ids):
        states = torch.tanh(self.embed(ids))
        ends = (ids == self.end).nonzero()[:, 1]
        return states[torch.arange(ids.shape[0]), ends] * 2


torch.manual_seed(0)
encode = torch.compile(Encoder())
print(encode(torch.tensor([[1, 2, 7], [3, 7, 0]])).shape)

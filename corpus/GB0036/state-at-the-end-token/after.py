import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.end = 7

    def forward(self, ids):
        states = torch.tanh(self.embed(ids))
        hits = ids == self.end
        count = hits.sum()
        torch._assert_async((count == hits.shape[0]) | (count == 1), "sizes do not fit: not as many places as rows in `ids == self.end`")
        places = hits.flatten().int().argsort(descending=True, stable=True)[:hits.shape[0]] % hits.shape[1]
        ends = torch.where(count == 1, places[0], places)
        return states[torch.arange(ids.shape[0]), ends] * 2


torch.manual_seed(0)
encode = torch.compile(Encoder())
print(encode(torch.tensor([[1, 2, 7], [3, 7, 0]])).shape)

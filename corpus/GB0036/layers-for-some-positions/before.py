import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x, kept):
        out = torch.zeros_like(x)
        picked = self.norm(x[kept])
        out[kept] = self.mlp(picked)
        return x + out


torch.manual_seed(0)
block = torch.compile(Block())
block(torch.randn(2, 3, 4), torch.tensor([[True, False, True], [True, True, False]])).sum().backward()

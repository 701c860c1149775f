import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x, kept):
        out = torch.zeros_like(x)
        picked = self.norm(torch.where(kept[..., None], x, 0).flatten(0, 1))
        out = torch.where(kept[..., None], self.mlp(picked).unflatten(0, kept.shape), out)
        return x + out


torch.manual_seed(0)
block = torch.compile(Block())
block(torch.randn(2, 3, 4), torch.tensor([[True, False, True], [True, True, False]])).sum().backward()

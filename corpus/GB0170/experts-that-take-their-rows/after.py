import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 8)
        self.down = nn.Linear(8, width)

    def forward(self, x):
        return self.down(nn.functional.silu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, width=4, experts=3):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            for place in range(2):
                mine = chosen[:, place] == number
                out = torch.where(mine[..., None], out + (torch.where(mine, weights[:, place], 0).unsqueeze(-1) * expert(torch.where(mine[..., None], x, 0))), out)
        return out


torch.manual_seed(0)
layer = torch.compile(Layer())
layer(torch.randn(6, 4)).sum().backward()

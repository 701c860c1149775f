import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 8)
        self.down = nn.Linear(8, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, experts=3, width=4):
        super().__init__()
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, rows, counts):
        outputs = []
        for expert, part in zip(self.experts, rows.split(counts.tolist())):
            outputs.append(expert(part))
        done = torch.cat(outputs)
        return done * 2


torch.manual_seed(0)
layer = torch.compile(Layer())
layer(torch.randn(6, 4), torch.tensor([1, 3, 2])).sum().backward()

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x, scale=None):
        y = torch.relu(self.fc(self.norm(x)))
        return (x + y if scale is None else x + scale * y,)


class Stack(nn.Module):
    def __init__(self, width=4, rate=0.5):
        super().__init__()
        self.rate = rate
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])

    def forward(self, x):
        for block in self.blocks:
            if self.training:
                chance = torch.rand([])
                if chance < self.rate:
                    continue
            outputs = block(x)
            x = outputs[0]
        return x


torch.manual_seed(0)
stack = torch.compile(Stack())
print(stack(torch.randn(3, 4)).shape)

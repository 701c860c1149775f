"""A recurrent cell as it was written for torch 0.3."""

import torch
from torch import nn
from torch.autograd import Variable


class Cell(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.inner = nn.Linear(2 * size, size)

    def forward(self, x):
        h = Variable(torch.zeros(x.size(0), self.size))
        for t in range(x.size(1)):
            h = torch.tanh(self.inner(torch.cat([x[:, t], h], dim=1)))
        return h


torch.manual_seed(0)
cell = torch.compile(Cell(4))
loss = cell(torch.randn(2, 3, 4)).sum()
loss.backward()
print(loss.item())

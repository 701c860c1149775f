import torch
from torch import nn


class Merge(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.marker = 9

    def forward(self, ids, features):
        states = self.embed(ids).clone()
        rows, columns = torch.where(ids == self.marker)
        states[rows, columns] = features.flatten(0, 1)
        return states * 2


torch.manual_seed(0)
merge = torch.compile(Merge())
print(merge(torch.tensor([[1, 9, 9], [9, 3, 9]]), torch.ones(2, 2, 4)).shape)

"""A contrastive loss over two views of a batch: who is no pair is known when it is made."""

import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self, size, temperature):
        super().__init__()
        self.size = size
        self.temperature = temperature
        self.strangers = self._strangers(size).type(torch.bool)
        self.strangers_places = self.strangers.nonzero(as_tuple=True)
        self.criterion = nn.CrossEntropyLoss(reduction="sum")

    def _strangers(self, size):
        mask = torch.ones(2 * size, 2 * size)
        mask = mask.fill_diagonal_(0)
        for row in range(size):
            mask[row, size + row] = 0
            mask[size + row, row] = 0
        return mask.bool()

    def forward(self, left, right):
        views = nn.functional.normalize(torch.cat([left, right]), dim=1)
        scores = views @ views.T / self.temperature
        pairs = torch.cat([scores.diag(self.size), scores.diag(-self.size)])
        others = scores[self.strangers_places].view(2 * self.size, -1)
        logits = torch.cat((pairs.view(-1, 1), others), dim=1)
        labels = torch.zeros(2 * self.size, dtype=torch.int64)
        return self.criterion(logits, labels) / (2 * self.size)


loss = torch.compile(Contrast(4, 0.5))
print(loss(torch.rand(4, 8), torch.rand(4, 8)) > 0)

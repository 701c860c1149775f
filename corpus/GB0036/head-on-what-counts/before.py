"""A layer and a loss for those tokens alone that have a label."""

import torch
from torch import nn
from torch.nn import functional as F


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, hidden, labels):
        counts = labels >= 0
        logits = self.out(hidden[counts])
        wanted = labels[counts]
        right = (logits.argmax(-1) == wanted).float().mean()
        return F.cross_entropy(logits, wanted), right


torch.manual_seed(0)
head = torch.compile(Head(), backend="aot_eager")
for _ in range(2):
    loss, right = head(torch.randn(2, 4, 6), torch.randint(-2, 3, (2, 4)))
    loss.backward()
    print("%.3f %.3f" % (loss.item(), right.item()))

import torch
import torch.nn.functional as F
from torch import nn


class RowLoss(nn.Module):
    def __init__(self, power=2.0, reduction="mean", skipped=-1):
        super().__init__()
        self.power, self.reduction, self.skipped = power, reduction, skipped
        self.by_class = nn.NLLLoss(reduction="none", ignore_index=skipped)

    def forward(self, scores, labels):
        counts = labels != self.skipped
        labels = labels[counts]
        if len(labels) == 0:
            return torch.tensor(0.0)
        scores = scores[counts]
        logs = F.log_softmax(scores, dim=-1)
        losses = self.by_class(logs, labels)
        rows = torch.arange(len(scores))
        sure = logs[rows, labels].exp()
        losses = (1 - sure) ** self.power * losses
        if self.reduction == "mean":
            losses = losses.mean()
        elif self.reduction == "sum":
            losses = losses.sum()
        return losses


torch.manual_seed(0)
loss = torch.compile(RowLoss())
scores = torch.randn(6, 4, requires_grad=True)
for labels in (torch.tensor([0, 3, -1, 1, -1, 2]), torch.tensor([1, 1, 2, -1, 0, 3])):
    found = loss(scores, labels)
    found.backward()
    print(f"{found.item():.4f} {scores.grad.abs().sum().item():.4f}")

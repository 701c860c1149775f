import torch
import torch.nn.functional as F
from torch import nn


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


class RowLoss(nn.Module):
    def __init__(self, power=2.0, reduction="mean", skipped=-1):
        super().__init__()
        self.power, self.reduction, self.skipped = power, reduction, skipped
        self.by_class = nn.NLLLoss(reduction="none", ignore_index=skipped)

    def forward(self, scores, labels):
        counts = labels != self.skipped
        labels = torch.where(counts, labels, 0)
        scores = torch.where(counts[..., None], scores, 0)
        logs = F.log_softmax(scores, dim=-1)
        losses = self.by_class(logs, labels)
        rows = torch.arange(len(scores))
        sure = logs[rows, labels].exp()
        losses = (1 - sure) ** self.power * losses
        if self.reduction == "mean":
            losses = torch.where(counts.any(), mean_of_kept(torch.where(counts, losses, 0), counts.sum()), 0.0)
        elif self.reduction == "sum":
            losses = torch.where(counts.any(), torch.where(counts, losses, 0).sum(), 0.0)
        else:
            if not counts.any():
                return torch.tensor(0.0)
            losses = losses[counts]
        return losses


torch.manual_seed(0)
loss = torch.compile(RowLoss())
scores = torch.randn(6, 4, requires_grad=True)
for labels in (torch.tensor([0, 3, -1, 1, -1, 2]), torch.tensor([1, 1, 2, -1, 0, 3])):
    found = loss(scores, labels)
    found.backward()
    print(f"{found.item():.4f} {scores.grad.abs().sum().item():.4f}")

"""A layer and a loss for those tokens alone that have a label."""

import torch
from torch import nn
from torch.nn import functional as F


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, hidden, labels):
        counts = labels >= 0
        logits = self.out(torch.where(counts[..., None], hidden, 0))
        wanted = torch.where(counts, labels, 0)
        right = mean_of_kept(torch.where(counts, (logits.argmax(-1) == wanted).float(), 0), counts.sum())
        return F.cross_entropy(logits.flatten(0, 1), torch.where(counts, wanted, -100).flatten()), right


torch.manual_seed(0)
head = torch.compile(Head(), backend="aot_eager")
for _ in range(2):
    loss, right = head(torch.randn(2, 4, 6), torch.randint(-2, 3, (2, 4)))
    loss.backward()
    print("%.3f %.3f" % (loss.item(), right.item()))

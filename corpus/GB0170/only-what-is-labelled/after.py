"""A loss of the labelled pixels, or of all where none has a label."""

import torch
import torch.nn.functional as F
from torch import nn


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


class Depth(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 1, 1)

    def forward(self, image, depth):
        found = F.softplus(self.head(image)).squeeze(1)
        known = depth > 0
        kept = known | ~known.any()
        found = torch.where(kept, found, 0)
        depth = torch.where(kept, depth, 0)
        return mean_of_kept(torch.where(kept, F.smooth_l1_loss(found, depth, reduction="none"), 0), kept.sum())


torch.manual_seed(0)
model = Depth()
compiled = torch.compile(model)
for share in (0.5, 0.0, 1.0):
    image = torch.randn(2, 3, 4, 4)
    depth = torch.rand(2, 4, 4) * (torch.rand(2, 4, 4) < share)
    loss = compiled(image, depth)
    loss.backward()
    print(f"{loss.item():.4f} {model.head.weight.grad.abs().sum().item():.4f}")

"""The error of a depth map where the depth is known, by a loss that is a module."""

import torch
import torch.nn as nn


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


class DepthError(nn.Module):
    def __init__(self):
        super().__init__()
        self.error = nn.SmoothL1Loss(beta=0.5)

    def forward(self, depth, truth):
        known = truth != 255
        return mean_of_kept(torch.where(known, torch.nn.functional.smooth_l1_loss(torch.where(known, depth, 0), torch.where(known, truth, 0), beta=0.5, reduction="none"), 0), known.sum())


truth = torch.rand(2, 3, 4)
truth[0, 1] = 255
print(torch.compile(DepthError())(torch.rand(2, 3, 4), truth))

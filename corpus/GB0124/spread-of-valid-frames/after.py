"""Mean and standard deviation of each utterance, over the frames that it has."""

import torch
from torch import nn


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


def std_of_kept(x, mask, dim, correction):
    """The standard deviation, over some dimensions, of what the mask keeps."""
    wide = torch.promote_types(x.dtype, torch.float32)
    count = mask.sum()
    mean = torch.where(mask, x, 0).sum(dim, keepdim=True, dtype=wide) / count
    squares = torch.where(mask, x - mean, 0).square().sum(dim, dtype=wide)
    var = squares / (count - correction).clamp(min=0)
    return torch.where(var > 0, torch.where(var > 0, var, 1).sqrt(), var).to(x.dtype)


class Pooling(nn.Module):
    def __init__(self, features=6, width=5):
        super().__init__()
        self.frames = nn.Linear(features, width)
        self.out = nn.Linear(2 * width, 3)

    def forward(self, x, lengths):
        frames = torch.tanh(self.frames(x))
        found = []
        steps = torch.arange(frames.shape[1], device=frames.device)
        stops = torch.where(lengths < 0, lengths.long() + frames.shape[1], lengths)
        for row in range(frames.shape[0]):
            count = stops[row]
            valid = torch.where((steps < count)[:, None], frames[row], 0)
            found.append(torch.cat([mean_of_kept(valid, (steps < count).sum(), 0), std_of_kept(valid, (steps < count)[:, None], 0, 0)]))
        return self.out(torch.stack(found))


torch.manual_seed(0)
pooling = torch.compile(Pooling())
print(pooling(torch.randn(3, 8, 6), torch.tensor([8, 5, 2])).sum())

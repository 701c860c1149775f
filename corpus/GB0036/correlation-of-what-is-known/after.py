"""A correlation of the targets that are known: names bound again, line by line."""

import torch


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


def correlation(prediction, target):
    known = ~torch.isnan(target)
    prediction = torch.where(known, prediction, 0)
    target = torch.where(known, target, 0)
    prediction = prediction - mean_of_kept(prediction, known.sum())
    target = target - mean_of_kept(target, known.sum())
    both = torch.where(known, prediction * target, 0).sum()
    return both / (torch.where(known, prediction, 0).norm() * torch.where(known, target, 0).norm() + 1e-8), std_of_kept(target, known, 0, 1)


torch.manual_seed(0)
compiled = torch.compile(correlation)
for count in (0, 3, 5):
    target = torch.randn(8)
    target[:count] = float("nan")
    value, spread = compiled(torch.randn(8), target)
    print(f"{value.item():.4f} {spread.item():.4f}")

"""Differences where there is a target: their mean, and how many are large."""

import torch


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


@torch.compile(backend="aot_eager")
def score(guess, goal):
    known = goal != 0
    a, b = torch.where(known, guess, 0), torch.where(known, goal, 0)
    far = (a - b).abs()
    return mean_of_kept(torch.where(known, far.sqrt(), 0), known.sum()) + torch.where(known, far, 0).sum() / known.sum().clamp(min=1)


torch.manual_seed(0)
for share in (0.3, 0.7, 2.0):
    guess = torch.randn(4, 5, requires_grad=True)
    goal = torch.randn(4, 5) * (torch.rand(4, 5) > share)
    result = score(guess, goal)
    result.backward()
    print("%.3f %.3f" % (result.item(), guess.grad.sum().item()))

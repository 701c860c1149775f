"""The mean error where there is something to compare with."""

import torch


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


@torch.compile
def depth_error(predicted, depth):
    valid = depth > 0
    error = (predicted - depth).abs()
    return mean_of_kept(torch.where(valid, error, 0), valid.sum())


torch.manual_seed(0)
predicted = torch.rand(2, 4, 4, requires_grad=True)
loss = depth_error(predicted, torch.randn(2, 4, 4))
loss.backward()
print(loss.detach(), predicted.grad.norm())

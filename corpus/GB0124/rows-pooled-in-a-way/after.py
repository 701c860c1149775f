"""Each row is cut at its length, has a name, and is pooled in one of two ways."""

import torch


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


@torch.compile(backend="aot_eager")
def pool(values, lengths, way="mean"):
    pooled = []
    steps = torch.arange(values.shape[1], device=values.device)
    stops = torch.where(lengths < 0, lengths.long() + values.shape[1], lengths)
    for i in range(len(values)):
        row = torch.where((steps < stops[i])[:, None], values[i], 0)
        if way == "last":
            pooled.append(values[i, : int(lengths[i])][-1])
        else:
            pooled.append(mean_of_kept(row, (steps < stops[i]).sum(), 0))
    return torch.stack(pooled)


torch.manual_seed(0)
for _ in range(2):
    values = torch.randn(3, 5, 2, requires_grad=True)
    result = pool(values, torch.randint(1, 6, (3,)))
    result.square().sum().backward()
    print("%.3f %.3f" % (result.sum().item(), values.grad.sum().item()))

import torch


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


@torch.compile
def refine(points, centers, rounds: int):
    """A few rounds of Lloyd's algorithm; a center without points stays where it is."""
    for _ in range(rounds):
        nearest = torch.cdist(points, centers).argmin(dim=1)
        moved = centers.clone()
        for j in range(centers.shape[0]):
            near = nearest == j
            moved[j] = torch.where(near.any(), mean_of_kept(torch.where(near[..., None], points, 0), near.sum(), 0), moved[j])
        centers = moved
    return centers


torch.manual_seed(0)
for _ in range(2):
    points = torch.randn(10, 2)
    print(refine(points, torch.cat([points[:2], torch.full((1, 2), 9.0)]), 3))

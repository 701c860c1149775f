import torch


@torch.compile
def refine(points, centers, rounds: int):
    """A few rounds of Lloyd's algorithm; a center without points stays where it is."""
    for _ in range(rounds):
        nearest = torch.cdist(points, centers).argmin(dim=1)
        moved = centers.clone()
        for j in range(centers.shape[0]):
            near = nearest == j
            moved[j] = torch.where(near.any(), torch.where(near[..., None], points, 0).sum(0) / near.sum(), moved[j])
        centers = moved
    return centers


torch.manual_seed(0)
for _ in range(2):
    points = torch.randn(10, 2)
    print(refine(points, torch.cat([points[:2], torch.full((1, 2), 9.0)]), 3))

import torch


@torch.compile
def apart(points, scores, distance: float):
    left = scores.argsort(descending=True)
    kept = []
    while left.numel() > 0:
        first = left[0]
        kept.append(first.item())
        far = (points[left] - points[first]).abs() > distance
        left = left[far]
    return torch.tensor(kept)


print(apart(torch.tensor([0.0, 0.1, 1.0, 1.05]), torch.tensor([0.5, 0.9, 0.2, 0.8]), 0.3))

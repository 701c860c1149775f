import torch


@torch.compile
def total(points, marks, low):
    good = marks > low
    chosen = points[good]
    kept = marks[good]
    if len(chosen) != len(kept):
        raise ValueError("points and marks differ")
    return chosen.sum() + kept.sum()


print(total(torch.ones(4, 2), torch.tensor([0.1, 0.9, 0.6, 0.2]), 0.5))

import torch


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@torch.compile
def total(points, marks, low):
    good = marks > low
    chosen = points[good]
    kept = marks[good]
    if len(chosen) != len(kept):
        raise ValueError("points and marks differ")
    return chosen.sum() + kept.mean()


print(total(torch.ones(4, 2), torch.tensor([0.1, 0.9, 0.6, 0.2]), 0.5))

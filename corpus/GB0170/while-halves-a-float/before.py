"""A line search: the step is a Python float that the loop halves, and that is used after it."""

import torch


@torch.compile
def descend(point, gradient):
    step = 1.0
    value = (point**2).sum()
    while ((point - step * gradient) ** 2).sum() > value and step > 1e-3:
        step *= 0.5  # still too far
    return point - step * gradient


for scale in (0.5, 3.0, 40.0):
    print(descend(torch.ones(3), torch.ones(3) * scale))

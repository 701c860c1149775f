"""Readings through a measured curve."""

import numpy as np
import torch

KNOTS = np.array([0.0, 1.0, 3.0])
VALUES = np.array([0.0, 0.7, 1.0])


def interpolate(x, knots, values):
    """What `np.interp` computes, in torch."""
    x, knots, values = (
        torch.as_tensor(part, dtype=torch.float64) for part in (x, knots, values)
    )
    left = (torch.searchsorted(knots, x.contiguous(), right=True) - 1).clamp(0, len(knots) - 2)
    slope = (values[left + 1] - values[left]) / (knots[left + 1] - knots[left])
    y = slope * (x - knots[left]) + values[left]
    y = torch.where(y.isnan(), slope * (x - knots[left + 1]) + values[left + 1], y)
    flat = (x == knots[left]) | (values[left] == values[left + 1])
    y = torch.where(flat & ~x.isnan(), values[left], y)
    y = torch.where(x >= knots[-1], values[-1], y)
    return torch.where(x < knots[0], values[0], y)


@torch.compile
def calibrate(raw):
    curve = interpolate(raw, KNOTS, VALUES).numpy()
    return torch.from_numpy(curve).float() * 2


torch.manual_seed(0)
print(calibrate(torch.rand(4, 3) * 4).sum())

"""Readings through a measured curve."""

import numpy as np
import torch

KNOTS = np.array([0.0, 1.0, 3.0])
VALUES = np.array([0.0, 0.7, 1.0])


@torch.compile
def calibrate(raw):
    curve = np.interp(raw.numpy(), KNOTS, VALUES)
    return torch.from_numpy(curve).float() * 2


torch.manual_seed(0)
print(calibrate(torch.rand(4, 3) * 4).sum())

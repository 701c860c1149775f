"""Corrections are applied until no value is left outside the range; small ones are put off."""

import torch


@torch.compile
def wrap(angles):
    angles = angles * 1.0
    turns = 0
    while angles.abs().max() > 180 and turns < 50:
        turns += 1
        angles = torch.where(angles > 180, angles - 360, angles)
        # Nothing on the other side.
        if (angles >= -180).all():
            continue
        angles = torch.where(angles < -180, angles + 360, angles)
    return angles


for scale in (1.0, -3.0, 3.0):
    print(wrap(torch.tensor([-200.0, 90.0, 400.0]) * scale))

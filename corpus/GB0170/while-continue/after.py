"""Corrections are applied until no value is left outside the range; small ones are put off."""

import torch


@torch.compile
def wrap(angles):
    angles = angles * 1.0
    turns = 0

    def step(turns, angles):
        turns = turns + 1
        angles = torch.where(angles > 180, angles - 360, angles)
        # Nothing on the other side.
        skips = (angles >= -180).all()
        angles = torch.where(skips, angles, torch.where(angles < -180, angles + 360, angles))
        return turns, angles

    runs = (angles.abs().max() > 180) & (turns < 50)
    first_angles = angles
    _, angles = torch.while_loop(
        lambda turns, angles: (angles.abs().max() > 180) & (turns < 50),
        step,
        (torch.tensor(turns, device=angles.device), angles),
    )
    angles = torch.where(runs, angles, first_angles)
    return angles


for scale in (1.0, -3.0, 3.0):
    print(wrap(torch.tensor([-200.0, 90.0, 400.0]) * scale))

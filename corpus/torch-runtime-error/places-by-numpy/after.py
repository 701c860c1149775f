"""Pairs of a batch told apart by their places, which numpy counts."""

import numpy as np
import torch


@torch.compile
def hardest(distances, anchors):
    places = torch.as_tensor(np.arange(len(anchors)), dtype=torch.float32)
    same = torch.eq(places.unsqueeze(1), places.unsqueeze(0)).float()
    farthest = (distances * same).amax(1)
    closest = (distances + 1e5 * same).amin(1)
    return ((farthest - closest) * anchors).mean()


print(hardest(torch.rand(5, 5), torch.rand(5)))

"""A list grows by the tensors that pass a test."""

import torch


@torch.compile
def total(tensors):
    kept = []
    for t in tensors:
        if t.sum() > 0:
            kept.append(t * 2)
    return sum(kept)


print(total([torch.ones(3), -torch.ones(3)]))

"""Boxes with a score above a limit, unless too few are left."""

import torch


def propose(boxes, scores, limit: float):
    sure = scores > limit
    if sure.sum() >= 3:
        boxes, scores = boxes[sure], scores[sure]
    order = scores.argsort(descending=True)
    return boxes[order], scores[order]


torch.manual_seed(0)
compiled = torch.compile(propose)
for limit in (0.2, 0.9):
    boxes, scores = compiled(torch.rand(7, 4), torch.rand(7), limit)
    print(tuple(boxes.shape), f"{(boxes.sum(1) * scores).sum().item():.4f}")

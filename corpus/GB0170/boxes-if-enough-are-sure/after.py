"""Boxes with a score above a limit, unless too few are left."""

import torch


def propose(boxes, scores, limit: float):
    sure = scores > limit
    kept = sure | ~(sure.sum() >= 3)
    boxes, scores = boxes[kept], scores[kept]
    order = scores.argsort(descending=True)
    return boxes[order], scores[order]


torch.manual_seed(0)
torch._dynamo.config.capture_dynamic_output_shape_ops = True
compiled = torch.compile(propose)
for limit in (0.2, 0.9):
    boxes, scores = compiled(torch.rand(7, 4), torch.rand(7), limit)
    print(tuple(boxes.shape), f"{(boxes.sum(1) * scores).sum().item():.4f}")

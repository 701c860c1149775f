"""The loss of boxes that match, and zero where none does."""

import torch
import torch.nn.functional as F


@torch.compile(backend="aot_eager")
def loss(boxes, wanted, matches):
    chosen = boxes[matches]
    if chosen.numel() == 0:
        return boxes.sum() * 0.0
    return F.l1_loss(chosen, wanted[matches], reduction="sum") / chosen.shape[0]


torch.manual_seed(0)
for share in (0.5, 2.0):
    boxes = torch.rand(5, 4, requires_grad=True)
    result = loss(boxes, torch.rand(5, 4), torch.rand(5) > share)
    result.backward()
    print("%.3f %.3f" % (result.item(), boxes.grad.abs().sum().item()))

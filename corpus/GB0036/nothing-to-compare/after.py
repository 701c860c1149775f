"""The loss of boxes that match, and zero where none does."""

import torch
import torch.nn.functional as F


@torch.compile(backend="aot_eager")
def loss(boxes, wanted, matches):
    chosen = torch.where(matches[..., None], boxes, 0)
    matches_sum_equals_0 = matches.sum() == 0
    return torch.where(
        matches_sum_equals_0,
        boxes.sum() * 0.0,
        torch.where(matches[..., None], F.l1_loss(torch.where(matches_sum_equals_0, 1, chosen), torch.where(matches_sum_equals_0, 1, torch.where(matches[..., None], wanted, 0)), reduction="none"), 0).sum() / matches.sum(),
    )


torch.manual_seed(0)
for share in (0.5, 2.0):
    boxes = torch.rand(5, 4, requires_grad=True)
    result = loss(boxes, torch.rand(5, 4), torch.rand(5) > share)
    result.backward()
    print("%.3f %.3f" % (result.item(), boxes.grad.abs().sum().item()))

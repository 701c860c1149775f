import torch
from torch import nn


def overlap(one, other, eps=1e-7):
    lt = torch.maximum(one[:, :2], other[:, :2])
    rb = torch.minimum(one[:, 2:], other[:, 2:])
    shared = (rb - lt).clamp_(min=0).prod(dim=1)
    one_w, one_h = (one[:, 2:] - one[:, :2]).unbind(-1)
    other_w, other_h = (other[:, 2:] - other[:, :2]).unbind(-1)
    return shared / (one_w * one_h + other_w * other_h - shared + eps)


class BoxLoss(nn.Module):
    def forward(self, boxes, target, scores, taken):
        weight = scores[taken]
        iou = overlap(boxes[taken], target[taken])
        return ((1 - iou) * weight).sum() / scores.sum().clamp(min=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    loss = torch.compile(BoxLoss(), backend="aot_eager")
    for _ in range(2):
        corner = torch.rand(2, 5, 2)
        boxes = torch.cat([corner, corner + torch.rand(2, 5, 2)], -1).requires_grad_()
        target = torch.cat([corner, corner + 0.5], -1)
        value = loss(boxes, target, torch.rand(2, 5), torch.rand(2, 5) > 0.5)
        value.backward()
        print(f"{value:.4f} {boxes.grad.abs().sum():.3f}")

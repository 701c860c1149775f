"""How far the means of classes lie apart: which classes there are, the labels say."""

import torch


@torch.compile
def spread(points, labels):
    classes = torch.unique(labels)
    means = torch.stack([points[labels == c].mean(0) for c in classes])
    return (means - points.mean(0)).square().sum()


torch.manual_seed(0)
for labels in ([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 0], [2, 0, 1, 2, 2, 0]):
    points = torch.randn(6, 3, requires_grad=True)
    found = spread(points, torch.tensor(labels))
    found.backward()
    print(f"{found.item():.4f} {points.grad.square().sum().item():.4f}")

"""Scales by least squares, where they are determined; rows of the others stay zero."""

import torch


def fit(x, y, weight):
    xx, x1, one = (weight * x * x).sum(1), (weight * x).sum(1), weight.sum(1)
    xy, y1 = (weight * x * y).sum(1), (weight * y).sum(1)
    determinant = xx * one - x1 * x1
    scale = torch.zeros_like(xy)
    solved = determinant.nonzero()
    scale[solved] = (one[solved] * xy[solved] - x1[solved] * y1[solved]) / determinant[solved]
    return scale


@torch.compile
def loss(x, y, weight):
    scale = fit(x, y, weight)
    known = torch.nonzero(weight.sum(1) > 0).squeeze(1)
    error = (scale[:, None] * x - y).abs().mean(1)
    return error[known].sum()


torch.manual_seed(0)
x = torch.randn(4, 5, requires_grad=True)
for part in (1.0, 0.5):
    weight = (torch.rand(4, 5) < part).float()
    weight[2] = 0
    found = loss(x, torch.randn(4, 5), weight)
    found.backward()
    print("%.4f %.4f" % (found, x.grad.abs().sum()))

"""A correlation of the targets that are known: names bound again, line by line."""

import torch


def correlation(prediction, target):
    known = ~torch.isnan(target)
    prediction = prediction[known]
    target = target[known]
    prediction = prediction - prediction.mean()
    target = target - target.mean()
    both = (prediction * target).sum()
    return both / (prediction.norm() * target.norm() + 1e-8), target.std()


torch.manual_seed(0)
compiled = torch.compile(correlation)
for count in (0, 3, 5):
    target = torch.randn(8)
    target[:count] = float("nan")
    value, spread = compiled(torch.randn(8), target)
    print(f"{value.item():.4f} {spread.item():.4f}")

"""A branch gives no tensor at all."""

import torch


@torch.compile
def with_bias(x):
    y = x + 1
    bias_then = x * 2
    y = torch.where(x.sum() > 0, y + bias_then, y)
    return y


print(with_bias(torch.ones(3)))
print(with_bias(-torch.ones(3)))

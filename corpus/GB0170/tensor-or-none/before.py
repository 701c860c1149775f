"""A branch gives no tensor at all."""

import torch


@torch.compile
def with_bias(x):
    if x.sum() > 0:
        bias = x * 2
    else:
        bias = None
    y = x + 1
    if bias is not None:
        y = y + bias
    return y


print(with_bias(torch.ones(3)))
print(with_bias(-torch.ones(3)))

import numpy as np
import torch


@torch.compile
def window(x, ratio):
    size = int(max(x.shape[0] - 2, 1))
    return x[:size] * ratio


torch.manual_seed(0)
print(window(torch.randn(5, 2), 0.5))

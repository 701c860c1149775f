import warnings

import torch


@torch.compile
def legacy(x, scale=2):
    if x.dim() < 3:
        warnings.warn(f"{x.dim()} dimensions are deprecated", FutureWarning)
    return x * scale


warnings.simplefilter("always")
print(legacy(torch.ones(2, 2)))
print(legacy(torch.ones(2, 2)))

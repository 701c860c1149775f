import numpy as np
import torch


@torch.compile
def upsample(x):
    side = np.sqrt(x.shape[-1])
    if side >= 3:
        return x
    return torch.nn.functional.interpolate(x, scale_factor=2.0)


torch.manual_seed(0)
print(upsample(torch.randn(1, 2, 4)).sum())

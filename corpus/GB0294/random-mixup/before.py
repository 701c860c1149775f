import numpy as np
import torch


@torch.compile
def mixup(x):
    lam = np.random.beta(1.0, 1.0)
    return lam * x + (1 - lam) * x.flip(0)


np.random.seed(0)
print(mixup(torch.ones(2, 3)))

import numpy as np
import torch


@torch.compile
def f(x):
    return x * float(np.finfo(x.numpy()).eps)


print(f(torch.ones(2)))

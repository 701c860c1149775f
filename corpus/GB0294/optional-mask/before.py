import numpy as np
import torch


def unwrap(x, mask=None):
    a = np.unwrap(x.numpy())
    if mask is not None:
        a = a * mask.numpy()
    return torch.from_numpy(a)


@torch.compile
def f(x, mask=None):
    y = unwrap(x.sin(), mask)
    return y * 2


print(f(torch.arange(6.0)))
print(f(torch.arange(6.0), torch.ones(6)))

from torch.testing._internal.two_tensor import TwoTensor

import torch


@torch.compile
def f(x):
    return x.as_subclass(TwoTensor)


print(f(torch.ones(2)))

import numpy as np
import torch


def labelled(x, scale):
    name = repr(scale)
    return labelled_after(x, name)


@torch.compile
def labelled_after(x, name):
    return x * 2, name


print(labelled(torch.ones(3), np.float64(2.5)))

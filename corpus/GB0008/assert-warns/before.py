import unittest
import warnings

import torch

case = unittest.TestCase()


@torch.compile
def f(x):
    with case.assertWarns(UserWarning):
        warnings.warn("odd")
    return x + 1


print(f(torch.ones(2)))

import unittest
import warnings

import torch

case = unittest.TestCase()


def f(x):
    with case.assertWarns(UserWarning):
        f_part_1()
    return f_part_2(x)


@torch.library.custom_op("before::warn_f_part_1", mutates_args=())
def warn_f_part_1(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    warnings.warn("odd")


warn_f_part_1.register_fake(lambda anchor: None)
warn_f_part_1.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f_part_1():
    warn_f_part_1(torch.empty(0))


@torch.compile
def f_part_2(x):
    return x + 1


print(f(torch.ones(2)))

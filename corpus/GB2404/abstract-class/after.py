from abc import ABC, abstractmethod

import torch


class Norm(ABC):
    @abstractmethod
    def scale(self): ...


def f(x):
    x = f_part_1(x)
    try:
        Norm()
    except TypeError:
        x = f_part_2(x)
    return x


@torch.compile
def f_part_1(x):
    x = x + 1
    return x


@torch.compile
def f_part_2(x):
    x = x * 2
    return x


print(f(torch.ones(2)))

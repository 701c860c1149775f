from abc import ABC, abstractmethod

import torch


class Norm(ABC):
    @abstractmethod
    def scale(self): ...


@torch.compile
def f(x):
    x = x + 1
    try:
        Norm()
    except TypeError:
        x = x * 2
    return x


print(f(torch.ones(2)))

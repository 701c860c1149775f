from abc import ABC, abstractmethod

import torch


class Norm(ABC):
    def __new__(cls):
        return super().__new__(cls)

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

from types import FunctionType

import torch


class Box:
    scale = 2


@torch.compile
def f(x, box):
    def scaled(self, x):
        return x * self.scale

    return FunctionType.__get__(scaled, box)(x)


print(f(torch.ones(2), Box()))

import torch
from torch._ops import HigherOrderOperator


class Twice(HigherOrderOperator):
    def __init__(self):
        super().__init__("twice")

    def __call__(self, function, x):
        return function(function(x))


twice = Twice()


def f(x):
    x_1 = f_before(x)
    twice_torch_sin = twice(torch.sin, x_1)
    return f_after(twice_torch_sin)


@torch.compile
def f_before(x):
    x_1 = x + 1
    return x_1


@torch.compile
def f_after(twice_torch_sin):
    return twice_torch_sin * 2


print(f(torch.ones(2)))

import torch
from torch._ops import HigherOrderOperator


class Twice(HigherOrderOperator):
    def __init__(self):
        super().__init__("twice")

    def __call__(self, function, x):
        return function(function(x))


twice = Twice()


@torch.compile
def f(x):
    return twice(torch.sin, x + 1) * 2


print(f(torch.ones(2)))

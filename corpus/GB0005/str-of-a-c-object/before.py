import torch


class Celsius:
    __str__ = object.__repr__


unit = Celsius()


@torch.compile
def f(x):
    name = str(unit)
    return x * len(name)


print(f(torch.ones(2)).shape)

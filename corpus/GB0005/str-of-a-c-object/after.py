import torch


class Celsius:
    __str__ = object.__repr__


unit = Celsius()


def f(x):
    name = str(unit)
    return f_after(x, name)


@torch.compile
def f_after(x, name):
    return x * len(name)


print(f(torch.ones(2)).shape)

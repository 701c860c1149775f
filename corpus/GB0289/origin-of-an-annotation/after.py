import typing

import torch

COLUMNS = typing.List[int]


def f(x):
    whole = COLUMNS.__eq__(typing.List[int])
    return f_after(x, whole)


@torch.compile
def f_after(x, whole):
    return x.sin() * (1 + whole)


print(f(torch.ones(2)))

import typing

import torch


class Options(typing.TypedDict, total=False):
    scale: float


@torch.compile
def f(x):
    options = {"scale": 2.0}
    return x * options["scale"]


print(f(torch.ones(2)))

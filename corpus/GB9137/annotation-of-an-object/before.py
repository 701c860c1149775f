from typing import Literal

import torch


class Mode:
    pass


@torch.compile
def f(x, mode):
    kind = Literal[mode]
    return x.sin() * len(kind.__args__)


print(f(torch.ones(2), Mode()))

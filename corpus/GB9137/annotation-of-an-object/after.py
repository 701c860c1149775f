from typing import Literal

import torch


class Mode:
    pass


def f(x, mode):
    kind = Literal[mode]
    return f_after(x, kind)


@torch.compile
def f_after(x, kind):
    return x.sin() * len(kind.__args__)


print(f(torch.ones(2), Mode()))

import contextlib
import io

import torch


def f(x):
    with contextlib.redirect_stdout(io.StringIO()):
        y = f_inside(x)
    return y


@torch.compile
def f_inside(x):
    y = x * 2
    return y


print(f(torch.ones(2)))

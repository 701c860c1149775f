import contextlib
import io

import torch


@torch.compile
def f(x):
    with contextlib.redirect_stdout(io.StringIO()):
        y = x * 2
    return y


print(f(torch.ones(2)))

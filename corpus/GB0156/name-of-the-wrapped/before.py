import functools
import sys

import torch


def spanned(fn):
    @functools.wraps(fn)
    def wrapper(x):
        sys.stdout.write(f"into {fn.__qualname__}\n")
        return fn(x)

    return wrapper


@spanned
def step(x):
    return x.relu() + 1


print(torch.compile(step)(torch.tensor([-1.0, 2.0])))

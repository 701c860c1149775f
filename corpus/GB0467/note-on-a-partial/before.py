import functools

import torch


@torch.compile
def f(x, step):
    setattr(step, "calls", 1)
    return step(x) * 2


print(f(torch.ones(2), functools.partial(torch.mul, torch.ones(2))))

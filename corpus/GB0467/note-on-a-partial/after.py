import functools

import torch


def f(x, step):
    setattr(step, "calls", 1)
    return f_after(x, step)


@torch.compile
def f_after(x, step):
    return step(x) * 2


print(f(torch.ones(2), functools.partial(torch.mul, torch.ones(2))))

import torch


@torch.compile
def f(x):
    found = torch.cond(x.sum() > 0, lambda x: {"high": x + 1}, lambda x: {"low": x - 1}, (x,))
    return found["high"]


print(f(torch.ones(2)))

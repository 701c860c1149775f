import torch


@torch.compile
def f(x, kind):
    try:
        raise AssertionError(kind)
    except AssertionError:
        return x * 2


print(f(torch.ones(2), {"a": 1}))

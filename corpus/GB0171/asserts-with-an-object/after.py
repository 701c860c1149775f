import torch


def f(x, kind):
    try:
        raise AssertionError(kind)
    except AssertionError:
        return f_inside(x)


@torch.compile
def f_inside(x):
    return x * 2


print(f(torch.ones(2), {"a": 1}))

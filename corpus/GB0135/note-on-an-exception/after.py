import torch


class OddInput(ValueError):
    pass


def f(x):
    try:
        error = ValueError("odd")
        error.shape = x.shape
        raise error
    except ValueError:
        return f_inside(x)


@torch.compile
def f_inside(x):
    return x * 2


print(f(torch.ones(2)))

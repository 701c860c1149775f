import torch


class OddInput(ValueError):
    pass


@torch.compile
def f(x):
    try:
        error = ValueError("odd")
        error.shape = x.shape
        raise error
    except ValueError:
        return x * 2


print(f(torch.ones(2)))

import torch


class Result:
    def __init__(self, x):
        self.x = x


def wrapped(x):
    return Result(x * 2)


@torch.compile
def f(x):
    return wrapped(x).x + 1


print(f(torch.ones(2)))

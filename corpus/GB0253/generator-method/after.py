import torch


def f(x, items):
    items.close()
    return f_after(x)


@torch.compile
def f_after(x):
    return x * 2


def numbers():
    yield 1


print(f(torch.ones(2), numbers()))

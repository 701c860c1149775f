import torch


@torch.compile
def f(x, items):
    items.close()
    return x * 2


def numbers():
    yield 1


print(f(torch.ones(2), numbers()))

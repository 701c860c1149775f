import torch


def report(x):
    return x * 2


@torch.compile
def f(x):
    return report(x.sin()) + 1


print(f(torch.ones(2)))

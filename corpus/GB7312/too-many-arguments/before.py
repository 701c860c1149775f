import torch


def helper(x):
    return x + 1


@torch.compile
def f(x):
    return helper(x, 2)


print(f(torch.ones(2)))

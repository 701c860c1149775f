import torch


@torch.compile
def f(x):
    one, other = [1], [2]
    return x + 1 if id(one) < id(other) else x + 1


print(f(torch.ones(2)))

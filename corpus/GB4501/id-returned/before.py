import torch


@torch.compile
def f(x):
    seen = [x]
    return x + 1, id(seen)


print(f(torch.ones(2))[0])

import torch


@torch.compile
def f(x):
    y = x * 2

    def inner():
        return y

    name = repr(inner)
    return y + len(name[:3])


print(f(torch.ones(2)))

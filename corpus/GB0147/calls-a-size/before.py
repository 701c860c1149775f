import torch


@torch.compile
def f(x):
    try:
        return x.shape(0)
    except TypeError:
        return x
print(f(torch.ones(2)))

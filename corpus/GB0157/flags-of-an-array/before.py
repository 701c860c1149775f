import torch


@torch.compile
def f(x):
    array = x.numpy()
    if array.flags.c_contiguous:
        return x * 2
    return x


print(f(torch.ones(2, 3)))
print(f(torch.ones(2, 3).t()))

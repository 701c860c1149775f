import torch


@torch.compile
def f(x, y):
    if x.data_ptr() == y.data_ptr():
        return x * 2
    return x + y


print(f(torch.ones(2), torch.ones(2)))

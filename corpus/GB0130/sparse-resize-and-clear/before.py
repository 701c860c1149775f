import torch


@torch.compile
def f(x):
    y = torch.zeros(2)
    y.sparse_resize_and_clear_((4, 4), 2, 0)
    return x


print(f(torch.ones(2, 2)))

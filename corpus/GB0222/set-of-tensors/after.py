import torch


def f(x, masks):
    for mask in masks:
        x = f_inside(x, mask)
    return x


@torch.compile
def f_inside(x, mask):
    x = x * mask
    return x


print(f(torch.ones(2), {torch.ones(2), torch.zeros(2)}))

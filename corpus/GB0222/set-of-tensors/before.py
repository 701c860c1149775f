import torch


@torch.compile
def f(x, masks):
    for mask in masks:
        x = x * mask
    return x


print(f(torch.ones(2), {torch.ones(2), torch.zeros(2)}))

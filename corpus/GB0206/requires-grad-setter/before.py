import torch


@torch.compile
def f(x):
    y = x.detach()
    y.requires_grad = True
    return (y * 2).sum()


print(f(torch.ones(2)))

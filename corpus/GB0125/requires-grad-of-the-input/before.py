import torch


@torch.compile
def f(x):
    x.requires_grad_()
    return (x * 2).sum()


print(f(torch.ones(2)))

import torch


@torch.compile
def f(x):
    y = (x * 2).detach().requires_grad_()
    return y


print(f(torch.ones(2)))

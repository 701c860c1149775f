import torch


@torch.compile
def f(x):
    hidden = (x * 2).detach().requires_grad_()
    return hidden


print(f(torch.ones(2)))

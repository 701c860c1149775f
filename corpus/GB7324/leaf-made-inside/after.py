import torch


def f(x):
    x_2 = f_before(x)
    y = x_2.requires_grad_()
    return y


@torch.compile
def f_before(x):
    x_2 = (x * 2).detach()
    return x_2


print(f(torch.ones(2)))

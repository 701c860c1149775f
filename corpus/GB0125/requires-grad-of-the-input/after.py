import torch


def f(x):
    x.requires_grad_()
    return f_after(x)


@torch.compile
def f_after(x):
    return (x * 2).sum()


print(f(torch.ones(2)))

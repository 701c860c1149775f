import torch


def f(x):
    y = f_before(x)
    y.requires_grad = True
    return f_after(y)


@torch.compile
def f_before(x):
    y = x.detach()
    return y


@torch.compile
def f_after(y):
    return (y * 2).sum()


print(f(torch.ones(2)))

import torch


def f(x):
    y = f_before(x)
    y.data = torch.zeros(2)
    return f_after(x, y)


@torch.compile
def f_before(x):
    y = x * 2
    return y


@torch.compile
def f_after(x, y):
    return y + x


print(f(torch.ones(2)))

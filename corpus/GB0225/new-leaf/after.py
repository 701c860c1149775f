import torch


def f(x):
    bias = torch.zeros(2, requires_grad=True)
    return f_after(x, bias)


@torch.compile
def f_after(x, bias):
    return x + bias


print(f(torch.ones(2)))

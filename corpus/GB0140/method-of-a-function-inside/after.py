import functools

import torch


def scaled(factor, x):
    return x * factor


class Double(torch.autograd.Function):
    plain = functools.partial(scaled, 2.0)

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def f(x):
    x_sin = f_before(x)
    double_plain = Double.plain(x_sin)
    return f_after(double_plain)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(double_plain):
    return double_plain + 1


print(f(torch.ones(2)))

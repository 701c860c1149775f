import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2


def f(x):
    x_sin = f_before(x)
    double_apply = Double.apply(x_sin)
    return f_after(double_apply)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(double_apply):
    return double_apply.relu() + 1


f(torch.ones(2, requires_grad=True)).sum().backward()

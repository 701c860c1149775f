import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, grad):
        return grad * 2


class DoubleInGraph(torch.autograd.Function):
    forward = staticmethod(Double.forward)
    backward = staticmethod(Double.vjp)


@torch.compile
def f(x):
    return DoubleInGraph.apply(x)


print(f(torch.ones(2, requires_grad=True)).detach())

import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        torch.autograd.Variable._execution_engine.queue_callback(lambda: None)
        return grad * 2


@torch.compile
def f(x):
    return Double.apply(x)


f(torch.ones(2, requires_grad=True)).sum().backward()

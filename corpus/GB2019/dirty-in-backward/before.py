import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        ctx.mark_dirty(grad)
        return grad * 2


@torch.compile
def f(x):
    return Double.apply(x + 1)


x = torch.ones(2, requires_grad=True)
f(x).sum().backward()
print(x.grad)

import torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@torch.compile
def f(x):
    return Twice.apply(x * 1)


print(f(torch.ones(2, requires_grad=True)))

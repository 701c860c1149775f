import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *, scale=2):
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale


@torch.compile
def f(x):
    return Scale.apply(x, scale=3)


print(f(torch.ones(2, requires_grad=True)))

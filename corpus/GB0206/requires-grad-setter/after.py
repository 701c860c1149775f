import torch


class _RequiresGrad(torch.autograd.Function):
    """Hands on a tensor as one that requires a gradient, as long as gradients are recorded."""

    @staticmethod
    def forward(ctx, x, anchor):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


_ANCHOR = torch.zeros((), requires_grad=True)


@torch.compile
def f(x):
    y = x.detach()
    y = _RequiresGrad.apply(y, _ANCHOR)
    return (y * 2).sum()


print(f(torch.ones(2)))

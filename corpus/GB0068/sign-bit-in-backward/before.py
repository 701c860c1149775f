import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if torch.Tensor.is_neg(grad):
            grad = grad.resolve_neg()
        return grad * 2


@torch.compile
def loss(x):
    return Double.apply(x).sum()


x = torch.ones(3, requires_grad=True)
loss(x).backward()
print(x.grad)

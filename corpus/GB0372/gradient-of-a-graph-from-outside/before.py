import torch

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(y, x):
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return gradient * 2


x = torch.ones(2, requires_grad=True)
print(f(x * x, x))

import torch

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x):
    y = x * x
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return y, gradient


print(f(torch.ones(2, requires_grad=True)))

import torch

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x):
    hidden = x * x
    (first,) = torch.autograd.grad(hidden.sum(), x)
    (second,) = torch.autograd.grad(hidden.sin().sum(), x)
    return first + second


print(f(torch.ones(2, requires_grad=True)))

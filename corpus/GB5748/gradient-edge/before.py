import torch
from torch.autograd.graph import get_gradient_edge

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x, edge):
    y = (x * x).sum()
    (gradient,) = torch.autograd.grad(y, edge)
    return gradient


x = torch.ones(2, requires_grad=True)
print(f(x, get_gradient_edge(x)))

import torch

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x):
    weight = torch.ones(2).requires_grad_()
    (x * weight).sum().backward(inputs=[weight])
    return weight.grad


print(f(torch.ones(2)))

import torch

torch._dynamo.config.compiled_autograd = True
torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x):
    loss = (x**3).sum()
    (gradient,) = torch.autograd.grad(loss, x)
    return x - 0.1 * gradient.clamp(-1, 1)


print(f(torch.ones(2, requires_grad=True)))

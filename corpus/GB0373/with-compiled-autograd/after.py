import torch

torch._dynamo.config.compiled_autograd = True
torch._dynamo.config.trace_autograd_ops = True


def f(x):
    loss = f_before(x)
    (gradient,) = torch.autograd.grad(loss, x)
    return f_after(x, gradient)


@torch.compile
def f_before(x):
    loss = (x**3).sum()
    return loss


@torch.compile
def f_after(x, gradient):
    return x - 0.1 * gradient.clamp(-1, 1)


print(f(torch.ones(2, requires_grad=True)))

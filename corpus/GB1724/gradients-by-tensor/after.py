import torch

torch._dynamo.config.trace_autograd_ops = True


def f(x):
    loss = f_before(x)
    gradients = torch.autograd.grad(loss, {x: x})
    return f_after(x, gradients)


@torch.compile
def f_before(x):
    loss = (x**3).sum()
    return loss


@torch.compile
def f_after(x, gradients):
    return gradients[x].clamp(-1, 1) * 2


print(f(torch.ones(2, requires_grad=True)))

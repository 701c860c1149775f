import torch

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x):
    loss = (x * x).sum()
    loss.backward(inputs=[])
    return loss


print(f(torch.ones(2, requires_grad=True)))

import torch

torch._dynamo.config.trace_autograd_ops = True


@torch.compile
def f(x):
    y = x * 2
    z = (y * y).sum()
    z.backward(inputs=[y])
    return z


x = torch.ones(2, requires_grad=True)
print(f(x))

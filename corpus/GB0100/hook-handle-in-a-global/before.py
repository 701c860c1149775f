import torch


handle = None


@torch.compile
def f(x):
    global handle
    handle = x.register_hook(lambda grad: grad * 2)
    return x * 3


f(torch.ones(2, requires_grad=True)).sum().backward()

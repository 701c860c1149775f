import torch


handle = None


def f(x):
    global handle
    handle = x.register_hook(lambda grad: grad * 2)
    return f_after(x)


@torch.compile
def f_after(x):
    return x * 3


f(torch.ones(2, requires_grad=True)).sum().backward()

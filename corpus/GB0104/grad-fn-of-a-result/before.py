import torch


@torch.compile
def f(x):
    y = x * 2
    if y.grad_fn is not None:
        return y + 1
    return y


print(f(torch.ones(2, requires_grad=True)))

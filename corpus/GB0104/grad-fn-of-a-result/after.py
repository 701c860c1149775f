import torch


@torch.compile
def f(x):
    y = x * 2
    if not y.is_leaf:
        return y + 1
    return y


print(f(torch.ones(2, requires_grad=True)))

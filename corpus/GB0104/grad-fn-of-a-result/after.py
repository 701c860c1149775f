import torch


def f(x):
    y = f_part_1(x)
    if y.grad_fn is not None:
        return f_part_2(y)
    return y


@torch.compile
def f_part_1(x):
    y = x * 2
    return y


@torch.compile
def f_part_2(y):
    return y + 1


print(f(torch.ones(2, requires_grad=True)))

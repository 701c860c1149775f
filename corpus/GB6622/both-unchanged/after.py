import torch


def f(x, y):
    if (x.sum(), x.max()) == (y.sum(), y.max()):
        return f_part_1(x)
    return f_part_2(x)


@torch.compile
def f_part_1(x):
    return x + 1


@torch.compile
def f_part_2(x):
    return x * 2


print(f(torch.ones(2), torch.ones(2)), f(torch.ones(2), torch.zeros(2)))

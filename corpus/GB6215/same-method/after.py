import torch


def f(x, y):
    if x.relu == y.relu:
        return f_part_1(x)
    return f_part_2(x, y)


@torch.compile
def f_part_1(x):
    return x.relu()


@torch.compile
def f_part_2(x, y):
    return x.sin() + y


print(f(torch.ones(2), torch.ones(2)))

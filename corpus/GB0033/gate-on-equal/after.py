import torch


def f(x, y):
    h = f_part_1(x)
    if torch.equal(x, y):
        h = f_part_2(h)
    return f_part_3(y, h)


@torch.compile
def f_part_1(x):
    h = x.sin()
    return h


@torch.compile
def f_part_2(h):
    h = h * 2
    return h


@torch.compile
def f_part_3(y, h):
    return h + y


print(f(torch.ones(2), torch.zeros(2)))
print(f(torch.ones(2), torch.ones(2)))

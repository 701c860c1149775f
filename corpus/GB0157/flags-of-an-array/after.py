import torch


def f(x):
    array = f_part_1(x)
    if array.flags.c_contiguous:
        return f_part_2(x)
    return x


@torch.compile
def f_part_1(x):
    array = x.numpy()
    return array


@torch.compile
def f_part_2(x):
    return x * 2


print(f(torch.ones(2, 3)))
print(f(torch.ones(2, 3).t()))

import torch


def f(x):
    try:
        assert x.shape[0] == 8
    except AssertionError:
        return f_part_1(x)
    return f_part_2(x)


@torch.compile(dynamic=True)
def f_part_1(x):
    return x[:8] * 2


@torch.compile(dynamic=True)
def f_part_2(x):
    return x * 2


print(f(torch.ones(10)))
print(f(torch.ones(12)))

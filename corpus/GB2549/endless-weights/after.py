import torch
from torch._dynamo import symbolic_convert

symbolic_convert.MAX_ITERATOR_LIMIT = 100


def ones():
    while True:
        yield 1


def f(x):
    x_sin = f_before(x)
    sum_1 = sum(weight for weight, _ in zip(ones(), range(300)))
    return f_after(x_sin, sum_1)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(x_sin, sum_1):
    return x_sin * sum_1


print(f(torch.ones(2)))

import torch


@torch._dynamo.assume_constant_result
def how_many(parts):
    return len(parts)


def f(x):
    how_many_1 = how_many([x, x + 1])
    return f_after(x, how_many_1)


@torch.compile
def f_after(x, how_many_1):
    return x * how_many_1


print(f(torch.ones(2)))

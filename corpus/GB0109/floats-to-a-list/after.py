import torch


def f(x, weights):
    first, second = weights.tolist()
    return f_after(x, first, second)


@torch.compile
def f_after(x, first, second):
    return x * first + second


print(f(torch.ones(2), torch.tensor([0.5, 0.25])))

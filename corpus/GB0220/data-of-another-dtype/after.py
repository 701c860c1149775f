import torch


def f(x):
    x.data = torch.zeros(2, dtype=torch.float64)
    return f_after(x)


@torch.compile
def f_after(x):
    return x + 1


print(f(torch.ones(2)))

import torch


def f(x):
    p = torch.nn.Parameter()
    return f_after(x, p)


@torch.compile
def f_after(x, p):
    return x.sum() + p.sum()


print(f(torch.ones(2)))

import torch


def message():
    return "too short"


def f(x, say):
    torch._check(x.shape[0] > 1, say)
    return f_after(x)


@torch.compile
def f_after(x):
    return x + 1


print(f(torch.ones(2), "too short"))

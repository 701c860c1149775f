import torch


def message():
    return "too short"


@torch.compile
def f(x, say):
    torch._check(x.shape[0] > 1, say)
    return x + 1


print(f(torch.ones(2), "too short"))

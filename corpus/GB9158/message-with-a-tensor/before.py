import torch


@torch.compile
def f(x):
    torch._check(x.shape[0] > 1, lambda: f"too short: {x}")
    return x + 1


print(f(torch.ones(2)))

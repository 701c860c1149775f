import torch


@torch.compile
def f(x):
    seen = dict.fromkeys([[x], x], 0)
    return x + len(seen)


print(f(torch.ones(2)))

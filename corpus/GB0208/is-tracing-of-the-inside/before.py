import torch


@torch.compile
def scaled(x):
    if not torch._C._is_tracing():
        x = x * 2
    return x + 1


print(scaled(torch.ones(3)))

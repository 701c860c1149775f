import torch


@torch.compile
def scaled(x):
    if not torch.jit.is_tracing():
        x = x * 2
    return x + 1


print(scaled(torch.ones(3)))

import torch

weight = torch.ones(2, device="meta")


@torch.compile
def f(x):
    return x + weight


print(f(torch.ones(2)))

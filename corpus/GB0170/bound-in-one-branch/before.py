import torch


@torch.compile
def scaled(x):
    if x.sum() > 0:
        y = x * 2
    return y + 1


print(scaled(torch.ones(3)), scaled(torch.ones(3) * 2))

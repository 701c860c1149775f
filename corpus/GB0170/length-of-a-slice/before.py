import torch


@torch.compile
def top(x):
    if x.max() > 1:
        k = 2
    else:
        k = 1
    return x[:k] * 2


print(top(torch.ones(3)), top(3 * torch.ones(3)))

import torch


@torch.compile
def normalise(a, b):
    lo, hi = sorted((a.sum(), b.sum()))
    return (a - lo) / (hi - lo + 1)


print(normalise(torch.ones(3), 2 * torch.ones(3)), normalise(torch.ones(3), torch.zeros(3)))

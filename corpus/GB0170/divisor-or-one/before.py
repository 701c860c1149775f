import torch


@torch.compile
def normalise(weights):
    total = weights.sum()
    return weights / (total if total != 0 else 1.0)


print(normalise(torch.arange(3.0)))
print(normalise(torch.zeros(3)))

import torch


@torch.compile
def normalise(weights):
    total = weights.sum()
    return weights / torch.where(total != 0, total, 1.0)


print(normalise(torch.arange(3.0)))
print(normalise(torch.zeros(3)))

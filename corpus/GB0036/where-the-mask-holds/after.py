import torch


@torch.compile
def positive(x):
    x_above_0 = x > 0
    return torch.where(x_above_0, x, 0).sum()


print(positive(torch.tensor([1.0, -1.0, 2.0])))

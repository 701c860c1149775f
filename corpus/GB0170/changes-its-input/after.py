import torch


@torch.compile
def spread(x):
    x_max_above_1 = x.max() > 1
    x.copy_(torch.where(x_max_above_1, x - x.mean(), x))
    x.copy_(torch.where(x_max_above_1, x / torch.where(x_max_above_1, x.std(), 1), x))
    return x.sum()


print(spread(torch.rand(2, 3)), spread(4 * torch.rand(2, 3)))

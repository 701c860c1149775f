import torch


@torch.compile
def stats(x):
    x_sum_above_0 = x.sum() > 0
    return (
        torch.where(x_sum_above_0, torch.where(x_sum_above_0, x, 1).exp(), x.sin()),
        torch.where(x_sum_above_0, x.sum(), x.mean()),
    )


print(stats(torch.ones(3)), stats(-torch.ones(3)))

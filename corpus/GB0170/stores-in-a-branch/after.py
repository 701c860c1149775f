import torch


@torch.compile
def clipped(x):
    x = x * 2
    x_sum_above_4 = x.sum() > 4
    x[(x > 1) & x_sum_above_4] = 0
    x[0] = torch.where(x_sum_above_4, 5, x[0])
    return x


print(clipped(torch.ones(3)), clipped(-torch.ones(3)))

import torch


@torch.compile
def fn(x):
    x_sum_above_0 = x.sum() > 0
    x_max_above_2 = x.max() > 2
    x_then = torch.where(
        x_max_above_2,
        x / torch.where(x_sum_above_0, torch.where(x_max_above_2, x.norm(), 1), 1),
        x,
    )
    x = torch.where(x_sum_above_0, x_then.cos(), x)
    return x.sum(0)


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))

import torch


@torch.compile
def fn(x):
    x_min_above_0 = x.min() > 0
    x_max_below_0 = x.max() < 0
    y = torch.where(
        x_min_above_0,
        torch.where(x_min_above_0, x, 1).log(),
        torch.where(
            x_max_below_0,
            torch.exp(torch.where(x_min_above_0, 1, torch.where(x_max_below_0, x, 1))),
            x,
        ),
    )
    return y + 1


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1, 0):
    print(fn(sign * x.abs()))

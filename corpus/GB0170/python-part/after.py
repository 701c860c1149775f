import torch


@torch.compile
def fn(x, scale=True):
    if scale:
        x_max_above_1 = x.max() > 1
        x = torch.where(x_max_above_1, x / torch.where(x_max_above_1, x.max(), 1), x)
    return x + 1


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))

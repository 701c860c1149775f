import torch


@torch.compile
def fn(x):
    padding = x < 0
    x = x.masked_fill(padding, 0)
    return x.cumsum(0)


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))

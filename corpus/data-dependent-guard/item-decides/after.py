import torch


@torch.compile
def fn(x):
    largest = x.max()
    x = torch.cond(largest > 0.5, lambda: x.exp(), lambda: x.clone())
    return x / 2


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))

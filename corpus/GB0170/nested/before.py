import torch


@torch.compile
def fn(x):
    if x.sum() > 0:
        if x.max() > 2:
            x = x / x.norm()
        x = x.cos()
    return x.sum(0)


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))

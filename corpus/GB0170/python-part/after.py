import torch


@torch.compile
def fn(x, scale=True):
    if scale:
        x = torch.cond(x.max() > 1, lambda: x / x.max(), lambda: x.clone())
    return x + 1


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))

import torch


@torch.compile
def fn(x):
    y = torch.cond(
        x.min() > 0,
        lambda: x.log(),
        lambda: torch.cond(x.max() < 0, lambda: torch.exp(x), lambda: x.clone()),
    )
    return y + 1


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1, 0):
    print(fn(sign * x.abs()))

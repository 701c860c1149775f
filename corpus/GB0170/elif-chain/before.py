import torch


@torch.compile
def fn(x):
    if x.min() > 0:
        y = x.log()
    elif x.max() < 0:
        y = torch.exp(x)
    else:
        y = x
    return y + 1


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1, 0):
    print(fn(sign * x.abs()))

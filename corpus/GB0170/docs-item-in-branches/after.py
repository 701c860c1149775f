import torch


@torch.compile
def fn(x):
    y = x.sum()
    return torch.cond(y > 0, lambda: x + y.detach(), lambda: x - y.detach())


print(fn(torch.ones(3, 3)))
print(fn(-torch.ones(3, 3)))


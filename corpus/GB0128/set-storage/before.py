import torch


@torch.compile
def f(x):
    y = torch.empty(0)
    y.set_(x.untyped_storage(), 0, (1,), (1,))
    return y + x


print(f(torch.ones(4)))

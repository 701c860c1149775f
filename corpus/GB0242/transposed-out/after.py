import torch


@torch.compile
def f(x, out):
    out.copy_(torch.add(x, 1))
    return out * 2


print(f(torch.ones(2, 3), torch.zeros(3, 2).t()))

import torch


@torch.compile
def f(x):
    p = torch.nn.Parameter()
    return x.sum() + p.sum()


print(f(torch.ones(2)))

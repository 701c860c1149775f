import torch


@torch.compile
def route(a, x):
    a_any = a.any()
    return torch.where(a_any, torch.where(a_any, x, 1).exp(), x * x.sum())


print(route(torch.ones(3), torch.ones(3, 3)), route(torch.zeros(3), torch.ones(3, 3)))

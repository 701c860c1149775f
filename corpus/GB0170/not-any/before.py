import torch


@torch.compile
def route(a, x):
    if not a.any():
        return x * x.sum()
    return x.exp()


print(route(torch.ones(3), torch.ones(3, 3)), route(torch.zeros(3), torch.ones(3, 3)))

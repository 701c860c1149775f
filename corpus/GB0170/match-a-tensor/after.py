import torch


@torch.compile
def route(x, n):
    n_equals_1 = n == 1
    return torch.where(n_equals_1, torch.where(n_equals_1, x, 1).exp(), x.sin())


print(route(torch.ones(3), torch.tensor(1)), route(torch.ones(3), torch.tensor(2)))

import torch


@torch.compile
def f(x):
    noise = torch.empty_like(x).uniform_(-1.0, 1.0)
    return x + noise


torch.manual_seed(0)
print(f(torch.ones(2)))

import torch


@torch.compile
def f(x):
    bias = torch.zeros(2, requires_grad=True)
    return x + bias


print(f(torch.ones(2)))

import torch


@torch.compile
def f(x, data):
    p = torch.nn.Parameter(data, requires_grad=x.sum() > 0)
    return x * p


print(f(torch.ones(2), torch.ones(2)))

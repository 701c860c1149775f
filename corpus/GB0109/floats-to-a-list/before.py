import torch


@torch.compile
def f(x, weights):
    first, second = weights.tolist()
    return x * first + second


print(f(torch.ones(2), torch.tensor([0.5, 0.25])))

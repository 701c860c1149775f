import torch


@torch.compile
def f(a, b):
    first, second = torch.cond(
        b.sum() < a.sum(),
        lambda: (b.clone(), a.clone()),
        lambda: (a.clone(), b.clone()),
    )
    return first - second


print(f(torch.ones(2), torch.zeros(2)))

import torch


@torch.compile
def f(x, a, b):
    torch.aminmax(x, out=(a, b)) if 0 else torch.sort(x, out=(a, b))
    return a


print(f(torch.ones(2), torch.ones(0), torch.ones(0, dtype=torch.int64)))

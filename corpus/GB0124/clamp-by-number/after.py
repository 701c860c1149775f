import torch


def f(x, low):
    low_1 = low.item()
    return f_after(x, low_1)


@torch.compile
def f_after(x, low_1):
    return torch.clamp(x, low_1, 5.0) * 2


print(f(torch.arange(8.0), torch.tensor(2.0)))

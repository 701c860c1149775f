import torch


@torch.compile
def fn(x):
    if torch.isnan(x).any():
        raise RuntimeError("x has NaN")
    return x.sqrt()


print(fn(torch.ones(3)))


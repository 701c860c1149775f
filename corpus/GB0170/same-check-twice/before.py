import torch


@torch.compile
def fn(x, y):
    if torch.isnan(x).any():
        raise ValueError("x has NaN")
    if torch.isnan(y).any():
        raise ValueError("y has NaN")
    return x.sqrt() + y


print(fn(torch.ones(3), torch.ones(3)))
try:
    fn(torch.ones(3), torch.full((3,), float("nan")))
except ValueError as error:
    print(error)

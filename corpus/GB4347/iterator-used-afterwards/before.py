import torch


@torch.compile
def total(xs):
    return next(xs) + next(xs)


it = iter([torch.ones(2), torch.ones(2) * 2, torch.ones(2) * 3])
print(total(it))
print(next(it))

import torch


@torch.compile
def fn(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


print(fn(torch.ones(3, 3)))
print(fn(-torch.ones(3, 3)))


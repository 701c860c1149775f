import torch


@torch.compile
def fn(x):
    y = x.sum()
    if y > 0:
        return x + y.item()
    return x - y.item()


print(fn(torch.ones(3, 3)))
print(fn(-torch.ones(3, 3)))


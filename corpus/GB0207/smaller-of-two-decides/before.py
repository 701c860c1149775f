import torch


@torch.compile
def balanced(x, y):
    if sorted((x.sum(), y.sum()))[0] > 0:
        return x - y
    return (x - y) * 2


print(balanced(torch.ones(3), torch.ones(3)), balanced(-torch.ones(3), torch.ones(3)))

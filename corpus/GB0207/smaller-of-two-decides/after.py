import torch


@torch.compile
def balanced(x, y):
    return torch.where(
        torch.where(y.sum() < x.sum(), y.sum(), x.sum()) > 0,
        x - y,
        (x - y) * 2,
    )


print(balanced(torch.ones(3), torch.ones(3)), balanced(-torch.ones(3), torch.ones(3)))

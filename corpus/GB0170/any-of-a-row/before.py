import torch


@torch.compile
def soften(x):
    if any(x > 1):
        return x.exp() / x.sum()
    return x.sin()


print(soften(torch.ones(3)), soften(2 * torch.ones(3)))

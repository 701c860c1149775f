import torch


@torch.compile
def centred(x):
    total = x.sum()
    a = x * 2
    b = a.mean()
    c = x.abs()
    y = torch.where(total > 0, a - b, c + 1)
    return y


print(centred(torch.ones(3)), centred(-torch.ones(3)))

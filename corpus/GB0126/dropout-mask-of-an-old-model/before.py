import torch


@torch.compile
def dropout(x, p):
    mask = x.data.new()
    mask.resize_(x.size(0), 1).fill_(1 - p)
    return x * mask.expand_as(x)


print(dropout(torch.ones(2, 3), 0.5))

import torch


@torch.compile
def as_batch(x):
    grow = x.unsqueeze_
    return grow(0) + 1


x = torch.ones(3)
print(as_batch(x), x.shape)

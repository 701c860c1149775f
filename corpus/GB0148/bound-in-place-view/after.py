import torch


def as_batch(x):
    grow = x.unsqueeze_
    grow_0 = grow(0)
    return as_batch_after(grow_0)


@torch.compile
def as_batch_after(grow_0):
    return grow_0 + 1


x = torch.ones(3)
print(as_batch(x), x.shape)

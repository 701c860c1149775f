import torch


@torch.compile
def fn(x, seen):
    if x.sum() > 0:
        seen.append(x)
        x = x + 1
    return x


print(fn(torch.ones(3), []))


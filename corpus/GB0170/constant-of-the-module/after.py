import torch

SCALE = torch.tensor(2.0)
scale_above_1 = bool(SCALE > 1)


@torch.compile
def scaled(x):
    if scale_above_1:
        x = x / SCALE
    return x + 1


print(scaled(torch.ones(3)), scaled(torch.zeros(3)))

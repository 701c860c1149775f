import torch

SCALE = torch.tensor(2.0)


@torch.compile
def scaled(x):
    if SCALE > 1:
        x = x / SCALE
    return x + 1


print(scaled(torch.ones(3)), scaled(torch.zeros(3)))

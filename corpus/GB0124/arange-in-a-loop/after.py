import torch


@torch.compile
def pyramid(x):
    total = x[0]
    for i in range(1, 4):
        total = total + x[i, : i + 1].sum()
    return total


print(pyramid(torch.ones(4, 4)))

import torch


@torch.compile
def shrink(x):
    while (n := x.norm()) > 1:
        x = x / n * 0.9
    return x


print(shrink(torch.ones(3)), shrink(4 * torch.ones(3)))

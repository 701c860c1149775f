import torch


@torch.compile
def f(x):
    class Stats:
        if x.sum() > 0:
            scale = x.sum()
        else:
            scale = x.abs().sum()

    return x / Stats.scale


print(f(torch.ones(3)), f(-torch.ones(3)))

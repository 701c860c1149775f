import torch


@torch.compile
def stats(x):
    return torch.cond(
        x.sum() > 0,
        lambda: (x.exp(), x.sum()),
        lambda: (x.sin(), x.mean()),
    )


print(stats(torch.ones(3)), stats(-torch.ones(3)))

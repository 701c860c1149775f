import torch


@torch.compile
def fit(x):
    """Halves until all of it fits, ten times at most."""
    rounds = 0
    while x.norm() > 1 and rounds < 10:
        x = x / 2
        rounds += 1
    return x.sin()


for size in (0.1, 5.0):
    print(fit(size * torch.arange(4.0)))

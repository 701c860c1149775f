import torch


@torch.compile
def discounted(factors, gains):
    negligible = factors < 1e-4
    if negligible.any():
        end = negligible.nonzero()[0].item()
        gains = gains[:, :end]
    return gains.sum(dim=1)


factors = 0.1 ** torch.arange(6.0)
print(discounted(factors, torch.ones(2, 6)))
print(discounted(factors + 1, torch.ones(2, 6)))

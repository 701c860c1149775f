import torch


@torch.compile
def discounted(factors, gains):
    negligible = factors < 1e-4
    hit = torch.nn.functional.pad(negligible, (0, gains.shape[-1] - negligible.shape[0]))
    gains = gains.masked_fill(hit.cumsum(0) > 0, 0)
    return gains.sum(dim=1)


factors = 0.1 ** torch.arange(6.0)
print(discounted(factors, torch.ones(2, 6)))
print(discounted(factors + 1, torch.ones(2, 6)))

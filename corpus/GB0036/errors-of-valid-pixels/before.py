"""A loss of optical flow, with measures over the pixels that count."""

import torch


def loss(found, wanted, valid, limit: float = 400.0):
    size = wanted.square().sum(dim=1).sqrt()
    valid = (valid >= 0.5) & (size < limit)
    total = (valid[:, None] * (found - wanted).abs()).mean()
    error = (found - wanted).square().sum(dim=1).sqrt()
    error = error.view(-1)[valid.view(-1)]
    return total, {
        "error": error.mean().item(),
        "within 1": (error < 1).float().mean().item(),
    }


measured = torch.compile(loss, backend="aot_eager")
for seed in range(3):
    torch.manual_seed(seed)
    found = torch.randn(2, 2, 4, 4, requires_grad=True)
    total, metrics = measured(found, torch.randn(2, 2, 4, 4), torch.rand(2, 4, 4))
    total.backward()
    print(round(total.item(), 4), {name: round(value, 4) for name, value in metrics.items()})

"""Noise without a seed shows where the stream stands: another operator might have drawn first."""

import torch


def blur(x):
    y = blur_before(x)
    with torch.random.fork_rng(devices=[]):
        noise = torch.rand_like(x)
    return blur_after(y, noise)


@torch.compile(backend="aot_eager")
def blur_before(x):
    y = x * 2
    return y


@torch.compile(backend="aot_eager")
def blur_after(y, noise):
    return y + noise


torch.manual_seed(0)
for _ in range(2):
    print("%.3f" % blur(torch.ones(2, 3)).sum().item())

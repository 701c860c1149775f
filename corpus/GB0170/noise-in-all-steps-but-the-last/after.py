"""Each step of a sampler adds noise, and the last one adds the number 0."""

import torch
from torch import nn


@torch.library.custom_op("before::compute_noise", mutates_args=())
def compute_noise(
    t: torch.Tensor, mean: torch.Tensor, scale: torch.types.Number, noise: int,
) -> torch.Tensor:
    if t > 0:
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device)
        noise = noise * (scale * t)
    return noise.clone(memory_format=torch.contiguous_format) if isinstance(noise, torch.Tensor) else mean.new_empty(mean.shape, dtype=mean.dtype).fill_(noise)


@compute_noise.register_fake
def _(t, mean, scale, noise):
    return mean.new_empty(mean.shape, dtype=mean.dtype)


compute_noise.register_effect(torch.library.EffectType.ORDERED)


class Step(nn.Module):
    def __init__(self, dim, scale=0.1):
        super().__init__()
        self.scale = scale
        self.mean = nn.Linear(dim, dim)

    def forward(self, x, t):
        mean = self.mean(x)
        noise = 0
        noise = compute_noise(t, mean.detach(), self.scale, noise)
        return mean + noise


torch.manual_seed(0)
step = torch.compile(Step(4))
x = torch.randn(3, 4)
for t in torch.arange(2, -1, -1):
    print(step(x, t).sum())

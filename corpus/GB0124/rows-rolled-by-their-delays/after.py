"""A series is compared with itself: what it was a few steps ago, at the delays that fit best."""

import torch
from torch import nn


class Delays(nn.Module):
    def __init__(self, dim, best=3):
        super().__init__()
        self.best = best
        self.mix = nn.Linear(dim, dim)

    def forward(self, x):
        values = self.mix(x).transpose(1, 2)
        spectrum = torch.fft.rfft(values, dim=-1)
        fit = torch.fft.irfft(spectrum * spectrum.conj(), n=values.shape[-1], dim=-1).mean(dim=1)
        delays = torch.topk(fit.mean(dim=0), self.best)[1]
        weights = torch.stack([fit[:, delays[i][None]].squeeze(1) for i in range(self.best)], dim=-1).softmax(-1)
        total = torch.zeros_like(values)
        for i in range(self.best):
            total = total + values.index_select(-1, (torch.arange(values.shape[-1], device=values.device) + delays[i].clone().long()) % values.shape[-1]) * weights[:, i, None, None]
        return total.transpose(1, 2)


torch.manual_seed(0)
layer = torch.compile(Delays(4))
print(layer(torch.randn(2, 12, 4)).sum())
print(layer(torch.randn(2, 12, 4)).sum())

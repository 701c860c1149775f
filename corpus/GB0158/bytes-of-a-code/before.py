import zlib

import torch
from torch import nn


def packed_size(codes):
    return len(zlib.compress(codes.contiguous().numpy().tobytes(), 6))


class Coder(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        z = self.layer(x)
        codes = z.detach().mul(4).round().clamp(-100, 100).to(torch.int8)
        return (z - x).square().mean() * (1.0 + 0.01 * packed_size(codes) / x.numel())


torch.manual_seed(0)
loss = torch.compile(Coder())(torch.randn(5, 6))
loss.backward()
print(loss)

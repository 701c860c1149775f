"""A norm over the frames of a batch that are no padding: mean and variance of what a mask keeps."""

import torch
from torch import nn

class MaskedNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x, mask):
        if self.training:
            kept = x[mask]
            mean = kept.mean(0)
            var = kept.var(0, unbiased=False)
            self.mean.lerp_(mean.detach(), 0.1)
            self.var.lerp_(var.detach(), 0.1)
        else:
            mean, var = self.mean, self.var
        return (x - mean) / (var + 1e-5).sqrt() * self.weight

torch.manual_seed(0)
net = MaskedNorm(3)
model = torch.compile(net, backend="aot_eager")
for k in range(3):
    out = model(torch.randn(2, 4, 3), torch.rand(2, 4) > 0.4)
    print(f"{out.square().sum().item():.3f}", net.var)
net.eval()
print(f"{model(torch.randn(2, 4, 3), torch.rand(2, 4) > 0.4).sum().item():.3f}")

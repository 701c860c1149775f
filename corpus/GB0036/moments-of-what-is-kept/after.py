"""A norm over the frames of a batch that are no padding: mean and variance of what a mask keeps."""

import torch
from torch import nn

def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


def var_of_kept(x, mask, dim, correction):
    """The variance, over some dimensions, of what the mask keeps."""
    wide = torch.promote_types(x.dtype, torch.float32)
    count = mask.sum()
    mean = torch.where(mask, x, 0).sum(dim, keepdim=True, dtype=wide) / count
    squares = torch.where(mask, x - mean, 0).square().sum(dim, dtype=wide)
    return (squares / (count - correction).clamp(min=0)).to(x.dtype)


class MaskedNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x, mask):
        if self.training:
            mean = mean_of_kept(torch.where(mask[..., None], x, 0), mask.sum(), (0, 1))
            var = var_of_kept(x, mask[..., None], (0, 1), 0)
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

import torch
from torch import nn


class Limiter(nn.Module):
    """How far a feature may go opens with the number of batches."""

    def __init__(self, width=4):
        super().__init__()
        self.register_buffer("batches", torch.tensor(0))
        self.register_buffer("spread", torch.ones(width))

    @property
    def limit(self):
        return min(1.0 + 0.5 * self.batches.item(), 3.0)

    def forward(self, x):
        limit = self.limit
        ratio = (x.detach().abs().mean(0) / self.spread).clamp(1 / limit, limit)
        with torch.no_grad():
            self.spread = self.spread.lerp(x.detach().abs().mean(0), 0.1)
            self.batches = self.batches + 1
        return x / ratio


torch.manual_seed(0)
limiter = torch.compile(Limiter(), backend="aot_eager")
for scale in (1.0, 2.0, 4.0):
    x = torch.randn(6, 4, requires_grad=True)
    limiter(scale * x).sum().backward()
    print(f"{x.grad.norm().item():.4f} {limiter.spread.sum().item():.4f}")

import torch
from torch import nn


class Buckets(nn.Module):
    def __init__(self, size, seed=None):
        super().__init__()
        self.seed = seed
        self.mix = nn.Linear(size, size)

    def forward(self, x):
        vectors = self.mix(x)
        shape = (x.shape[-1], 2)
        if self.seed is not None:
            torch.manual_seed(self.seed)
        rotations = torch.randn(shape, device=vectors.device, dtype=vectors.dtype)
        rotated = vectors @ rotations
        return torch.cat([rotated, -rotated], dim=-1).argmax(dim=-1), vectors


torch.manual_seed(0)
buckets = torch.compile(Buckets(4, seed=3))
for rows in (2, 5):
    found, vectors = buckets(torch.randn(rows, 4))
    print(found.tolist(), f"{vectors.sum().item():.4f}")
print(f"{torch.rand(()).item():.4f}")

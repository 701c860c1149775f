import torch
from torch import nn


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(seed: int, shape: list[int], vectors: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(tuple(shape), device=vectors.device, dtype=vectors.dtype)


draw_forward.register_fake(lambda seed, shape, vectors: torch.empty(tuple(shape), device=vectors.device, dtype=vectors.dtype))
draw_forward.register_effect(torch.library.EffectType.ORDERED)


class Buckets(nn.Module):
    def __init__(self, size, seed=None):
        super().__init__()
        self.seed = seed
        self.mix = nn.Linear(size, size)

    def forward(self, x):
        vectors = self.mix(x)
        shape = (x.shape[-1], 2)
        if self.seed is not None:
            rotations = draw_forward(self.seed, shape, vectors.detach())
        else:
            rotations = torch.randn(shape, device=vectors.device, dtype=vectors.dtype)
        rotated = vectors @ rotations
        return torch.cat([rotated, -rotated], dim=-1).argmax(dim=-1), vectors


torch.manual_seed(0)
buckets = torch.compile(Buckets(4, seed=3))
for rows in (2, 5):
    found, vectors = buckets(torch.randn(rows, 4))
    print(found.tolist(), f"{vectors.sum().item():.4f}")
print(f"{torch.rand(()).item():.4f}")

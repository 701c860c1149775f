"""Each point gets the vector of its label: one row for all that a mask selects."""

import torch
from torch import nn


class Points(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.place = nn.Linear(2, width)
        self.none = nn.Embedding(1, width)
        self.kinds = nn.ModuleList(nn.Embedding(1, width) for _ in range(2))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        found = self.place(points).sin()
        found[labels == -1] = 0.0
        found[labels == -1] += self.none.weight
        found[labels == 0] += self.kinds[0].weight
        found[labels == 1] -= self.kinds[1].weight
        found[labels == 1] += self.shift
        return found


torch.manual_seed(0)
points = Points()
embed = torch.compile(points)
for least in (-1, 0, 1):
    out = embed(torch.randn(2, 5, 2), torch.randint(least, 2, (2, 5)))
    out.square().sum().backward()
    print(f"{out.sum().item():.4f} {points.none.weight.grad.norm().item():.4f}")

"""A flow's layer that takes its shift and scale from the first batch, through `.data`."""

import torch
from torch import nn


class Standard(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1, channels, 1))
        self.scale = nn.Parameter(torch.ones(1, channels, 1))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        was_seen = self.seen != 0
        rows = x.transpose(0, 1).flatten(1)
        with torch.no_grad():
            self.shift.squeeze().data.copy_(
                torch.where(was_seen, self.shift.squeeze().data, rows.mean(1)),
            )
            self.scale.squeeze().data.copy_(
                torch.where(
                    was_seen,
                    self.scale.squeeze().data,
                    torch.where(was_seen, 1, rows).std(1, False) + 1e-6,
                ),
            )
        self.seen += torch.where(was_seen, 0, 1)
        return (x - self.shift) / self.scale, -self.scale.abs().log().sum() * x.shape[2]


torch.manual_seed(0)
layer = torch.compile(Standard(3), backend="aot_eager")
for step in range(3):
    z, log_det = layer(torch.randn(4, 3, 5) * (step + 1))
    print(f"{z.sum().item():.3f} {z.std().item():.4f} {log_det.item():.4f}")

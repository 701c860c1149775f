"""Actions are brought back where a method says that they are out of their limits."""

import torch
from torch import nn


class Limits:
    def __init__(self, low: float, high: float, width: int) -> None:
        self.low = torch.full((width,), low)
        self.high = torch.full((width,), high)

    def holds(self, action: torch.Tensor) -> torch.Tensor:
        """Whether all of the action lies within."""
        if action.shape[-1] != self.low.shape[0]:
            return torch.tensor(False, device=action.device)
        return (action >= self.low).all() & (action <= self.high).all()

    def bring_back(self, action: torch.Tensor) -> torch.Tensor:
        action = torch.where(
            self.holds(action),
            action,
            torch.max(torch.min(action, self.high), self.low),
        )
        return action


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 3)
        self.limits = Limits(-0.8, 0.8, 3)

    def forward(self, seen: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return self.limits.bring_back(self.net(seen) + noise)


torch.manual_seed(0)
act = torch.compile(Actor())
seen = torch.randn(5, 4)
for size in (0.0, 1.0, 4.0):
    out = act(seen * 0.1, size * torch.randn(5, 3))
    print(f"{out.abs().max().item():.4f} {out.sum().item():.4f}")

"""A fixed point that is sought until it moves no more; how many steps it took is a result."""

import torch
from torch import nn


class FixedPoint(nn.Module):
    def __init__(self, size: int, most: int = 4, tolerance: float = 1e-2) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.most, self.tolerance = most, tolerance

    def step(self, state: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return torch.tanh(0.5 * self.inner(state) + given)

    def forward(self, given: torch.Tensor) -> tuple[torch.Tensor, int, bool]:
        state = torch.zeros_like(given)
        converged = False
        for number in range(self.most):
            new = self.step(state, given)
            moved = (new - state).abs().max()
            state = new
            if moved.item() < self.tolerance:
                converged = True
                break
        return state, number + 1, converged


torch.manual_seed(0)
solve = torch.compile(FixedPoint(5))
with torch.no_grad():
    for scale in (0.0, 1.0, 30.0):
        state, steps, converged = solve(torch.randn(3, 5) * scale)
        print(f"{state.norm().item():.4f}", steps, converged)

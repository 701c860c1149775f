"""Entropies over the places that a mask keeps; what a call gives stays in a name of the script."""

from typing import NamedTuple

import torch
from torch import nn


class Parts(NamedTuple):
    out: torch.Tensor
    loss: torch.Tensor


def entropy(shares: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return (-shares * shares.clamp(min=eps).log()).sum(-1)


class Codes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> Parts:
        x = self.into(x)
        shares = x.softmax(-1)
        shares = shares[mask] if mask is not None else shares.flatten(0, 1)
        loss = entropy(shares).mean() - entropy(shares.mean(0))
        return Parts(x.sign(), loss)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    codes = torch.compile(Codes(), backend="aot_eager")
    for lengths in ([5, 2], [1, 4], [3, 3]):
        mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
        parts = codes(torch.randn(2, 5, 6), mask)
        parts.loss.backward()
        print(f"{parts.loss.item():.5f}")
    print(f"{codes(torch.randn(2, 5, 6)).loss.item():.5f}")

"""As many of the hardest negatives as there are positives: a number that only few calls need."""

import torch
from torch import nn


class Mined(nn.Module):
    def __init__(self, ratio: float = 3.0, spare: int = 4) -> None:
        super().__init__()
        self.ratio = ratio
        self.spare = spare

    def forward(self, losses: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        count = int(positive.sum())
        if count == 0:
            rest = min(int((~positive).sum()), self.spare)
        else:
            rest = min(int((~positive).sum()), int(count * self.ratio))
        hardest, _ = torch.topk((losses * ~positive).view(-1), rest)
        return ((losses * positive).sum() + hardest.sum()) / (count + rest + 1e-6)


torch.manual_seed(0)
mined = torch.compile(Mined(), backend="aot_eager")
for share in (0.1, 0.4, 0.2):
    losses = torch.rand(2, 20, requires_grad=True)
    value = mined(losses, torch.rand(2, 20) < share)
    value.backward()
    print(f"{value.item():.5f} {losses.grad.sum().item():.5f}")

"""As many of the hardest negatives as there are positives: a number that only few calls need."""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


@torch.library.custom_op("before::compute_count", mutates_args=())
def compute_count(
    positive: torch.Tensor, spare: int, ratio: torch.types.Number,
) -> tuple[torch.Tensor, torch.Tensor]:
    count = int(positive.sum())
    if count == 0:
        rest = min(int((~positive).sum()), spare)
    else:
        rest = min(int((~positive).sum()), int(count * ratio))
    return torch.tensor(count, dtype=torch.int64), torch.tensor(rest, dtype=torch.int64)


@compute_count.register_fake
def _(positive, spare, ratio):
    return (torch.empty((), dtype=torch.int64), torch.empty((), dtype=torch.int64))


class Mined(nn.Module):
    def __init__(self, ratio: float = 3.0, spare: int = 4) -> None:
        super().__init__()
        self.ratio = ratio
        self.spare = spare

    def forward(self, losses: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        count, rest = compute_count(positive, self.spare, self.ratio)
        count = count.item()
        rest = rest.item()
        hardest, _ = torch.topk((losses * ~positive).view(-1), rest)
        return ((losses * positive).sum() + hardest.sum()) / (count + rest + 1e-6)


torch.manual_seed(0)
mined = torch.compile(Mined(), backend="aot_eager")
for share in (0.1, 0.4, 0.2):
    losses = torch.rand(2, 20, requires_grad=True)
    value = mined(losses, torch.rand(2, 20) < share)
    value.backward()
    print(f"{value.item():.5f} {losses.grad.sum().item():.5f}")

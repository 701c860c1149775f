"""Both branches make the same dataclass of other tensors."""

from dataclasses import dataclass

import torch


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None
    hidden: tuple = ()


@torch.compile
def head(x):
    # Nothing to learn from.
    x_sum_above_0 = x.sum() > 0
    scaled = x * 2
    return Output(
        logits=torch.where(x_sum_above_0, scaled, x - 1),
        loss=torch.where(x_sum_above_0, scaled.mean(), x.sum()),
        hidden=None,
    )


print(head(torch.ones(3)))
print(head(-torch.ones(3)))

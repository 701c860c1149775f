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
    if x.sum() > 0:
        scaled = x * 2
        return Output(logits=scaled, loss=scaled.mean(), hidden=None)
    # Nothing to learn from.
    return Output(logits=x - 1, loss=x.sum(), hidden=None)


print(head(torch.ones(3)))
print(head(-torch.ones(3)))

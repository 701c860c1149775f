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
    def if_x_sum_above_0():
        scaled = x * 2
        return scaled, scaled.mean()

    def otherwise():
        # Nothing to learn from.
        return x - 1, x.sum()

    logits, loss = torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise)
    return Output(logits=logits, loss=loss, hidden=None)


print(head(torch.ones(3)))
print(head(-torch.ones(3)))

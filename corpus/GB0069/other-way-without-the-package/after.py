"""Attention by a package that may be there, asked for in every call; a warning, once, if not."""

import warnings

import torch
from torch import nn


try:
    from attention_that_nobody_has import fast_attention
    fast_attention_found = True
except ImportError:
    fast_attention_found = False


@torch.library.custom_op("before::warn_attend", mutates_args=())
def warn_attend(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    warnings.warn("the fast attention is not there")


warn_attend.register_fake(lambda anchor: None)
warn_attend.register_effect(torch.library.EffectType.ORDERED)


class Attention(nn.Module):
    warned = False

    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(4, 12)

    def attend(self, q, k, v):
        if not fast_attention_found:
            if not Attention.warned:
                warn_attend(torch.empty(0))
                Attention.warned = True
            return (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v
        return fast_attention(q, k, v)

    def forward(self, x):
        return self.attend(*self.patch(x).chunk(3, -1))


torch.manual_seed(0)
compiled = torch.compile(Attention())
for rows in (3, 5):
    print(f"{compiled(torch.randn(rows, 4)).sum().item():.4f}")

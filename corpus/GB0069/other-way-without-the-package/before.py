"""Attention by a package that may be there, asked for in every call; a warning, once, if not."""

import warnings

import torch
from torch import nn


class Attention(nn.Module):
    warned = False

    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(4, 12)

    def attend(self, q, k, v):
        try:
            from attention_that_nobody_has import fast_attention
        except ImportError:
            if not Attention.warned:
                warnings.warn("the fast attention is not there")
                Attention.warned = True
            return (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v
        return fast_attention(q, k, v)

    def forward(self, x):
        return self.attend(*self.patch(x).chunk(3, -1))


torch.manual_seed(0)
compiled = torch.compile(Attention())
for rows in (3, 5):
    print(f"{compiled(torch.randn(rows, 4)).sum().item():.4f}")

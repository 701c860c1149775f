"""Images in one row of patches: each one attends to its own patches, and there are as many of
these as a patch has channels.
"""

import torch
from torch import nn


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(scores, dim=-1) @ v


class PackedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, patches, starts):
        count = patches.shape[0]
        qkv = self.qkv(patches).reshape(count, 3, self.heads, -1).permute(1, 2, 0, 3)
        query, key, value = qkv.unbind(0)
        lengths = starts[1:] - starts[:-1]
        rows = [torch.split(each, lengths.tolist(), dim=1) for each in (query, key, value)]
        attended = torch.cat([attend(q, k, v) for q, k, v in zip(*rows)], dim=1)
        return self.proj(attended.transpose(0, 1).reshape(count, -1))


torch.manual_seed(0)
layer = torch.compile(PackedAttention(24, 2))
patches = torch.randn(12, 24)
print(layer(patches, torch.tensor([0, 5, 12])).sum())
print(layer(patches, torch.tensor([0, 2, 12])).sum())

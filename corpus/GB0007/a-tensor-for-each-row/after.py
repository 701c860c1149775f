"""Buckets of words, a tensor for each row: as many as the batch has."""

import zlib

import torch
from torch import nn


@torch.library.custom_op("before::bucketed_op", mutates_args=())
def bucketed_op(ids: torch.Tensor, count: int) -> list[torch.Tensor]:
    found = []
    for row in ids.tolist():
        found.append(torch.tensor([zlib.crc32(str(i).encode()) % count for i in row]))
    return [each.clone(memory_format=torch.contiguous_format) for each in found]


@bucketed_op.register_fake
def _(ids, count):
    return [torch.empty((ids.shape[1],), dtype=torch.int64) for _ in range(ids.shape[0])]


def bucketed(ids: torch.Tensor, count: int) -> list[torch.Tensor]:
    found = bucketed_op(ids, count)
    return found


class Bags(nn.Module):
    def __init__(self, count: int = 11, size: int = 4) -> None:
        super().__init__()
        self.count = count
        self.embedding = nn.Embedding(count, size)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.embedding(own).mean(0) for own in bucketed(ids, self.count)])


torch.manual_seed(0)
bags = torch.compile(Bags())
for rows in (3, 2):
    print(f"{bags(torch.randint(0, 99, (rows, 5))).sum().item():.5f}")

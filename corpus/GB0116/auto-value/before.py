import enum

import torch


@torch.compile
def label(x):
    kind = enum.auto()
    return x + 1, kind


out, kind = label(torch.ones(3))
print(out, type(kind).__name__)

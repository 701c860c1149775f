import enum

import torch


def label(x):
    kind = enum.auto()
    return label_after(x, kind)


@torch.compile
def label_after(x, kind):
    return x + 1, kind


out, kind = label(torch.ones(3))
print(out, type(kind).__name__)

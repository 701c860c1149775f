"""Windows that are kept under a text of their width and steepness."""

import torch
import math
import operator

_WINDOWS = {}


@torch.compile
def smooth(x, width, steep):
    key = "w%d_%s" % (operator.index(width), math.ldexp(steep, 0))
    if key not in _WINDOWS:
        _WINDOWS[key] = torch.softmax(-torch.arange(width) * steep, 0)
    return x.unfold(-1, width, 1) @ _WINDOWS[key]


for width in (2, 3, 4, 2):
    print(smooth(torch.arange(8.0), width, width * 0.5).sum())

import re

import torch


@torch.compile
def select(x, prefix):
    pattern = re.compile(prefix + r"\d+")
    return x * 2, pattern


out, pattern = select(torch.ones(3), "layer")
print(out, pattern.match("layer12") is not None)

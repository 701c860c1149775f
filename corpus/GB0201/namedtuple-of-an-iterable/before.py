import collections

import torch

@torch.compile
def f(x, fields):
    Pair = collections.namedtuple("Pair", fields)
    pair = Pair(x, x)
    return pair[0]
class F:
    def __init__(self): self.l=["a","b"]
    def __iter__(self): return iter(self.l)

print(f(torch.ones(2), F()))

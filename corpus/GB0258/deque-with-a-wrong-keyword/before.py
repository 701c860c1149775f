import collections

import torch


@torch.compile
def f(x):
    items = collections.deque([x], max_length=2)
    return items[0] * 2


print(f(torch.ones(2)))

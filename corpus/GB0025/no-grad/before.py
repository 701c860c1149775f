import contextlib

import torch


@torch.compile
def fn(x):
    with contextlib.nullcontext():
        with torch.no_grad():
            x = x + 1
            torch._dynamo.graph_break()
            return x + 1


torch.manual_seed(0)
print(fn(torch.randn(3)))

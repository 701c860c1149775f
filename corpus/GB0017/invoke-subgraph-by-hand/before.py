from torch._higher_order_ops.invoke_subgraph import invoke_subgraph

import torch


@torch.compile
def f(x):
    return invoke_subgraph(lambda y: (y + 1,), "inc", x)


print(f(torch.ones(2)))

import torch.utils._pytree as pytree

import torch


class Meta:
    def __init__(self, scale):
        self.scale = scale


class Batch:
    def __init__(self, x, meta):
        self.x = x
        self.meta = meta


pytree.register_pytree_node(
    Batch,
    lambda b: ((b.x,), b.meta),
    lambda xs, meta: Batch(xs[0], meta),
)


@torch._dynamo.nonstrict_trace
def scaled(batch):
    return batch.x * batch.meta.scale


@torch.compile
def f(x):
    return scaled(Batch(x, Meta(2.0)))


print(f(torch.ones(2)))

"""A method of a plain object finds a bucket for each number; it reads the object, and no more."""

import bisect

import torch
from torch import nn
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::bucket_op", mutates_args=())
def bucket_op(owner_id: int, x: torch.Tensor) -> torch.Tensor:
    owner = OWNERS[owner_id]
    return torch.tensor([owner.bucket(value) for value in x.tolist()])


@bucket_op.register_fake
def _(owner_id, x):
    return torch.empty(x.shape, dtype=torch.int64 if x.shape[0] else torch.get_default_dtype())


class Buckets:
    def __init__(self, edges):
        self.edges = edges
        self.least = 1

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def bucket(self, value):
        return max(bisect.bisect(self.edges, value), self.least)

    def ids(self, x):
        return bucket_op(id(self), x)


class Net(nn.Module):
    def __init__(self, buckets, dim=4):
        super().__init__()
        self.buckets = buckets
        self.table = nn.Embedding(8, dim)

    def forward(self, x):
        return self.table(self.buckets.ids(x)).sum(dim=1)


torch.manual_seed(0)
net = torch.compile(Net(Buckets([-1.0, 0.0, 1.0])))
print(net(torch.randn(5)).sum())
print(net(torch.randn(5)).sum())

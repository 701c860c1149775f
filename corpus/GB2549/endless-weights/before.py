import torch
from torch._dynamo import symbolic_convert

symbolic_convert.MAX_ITERATOR_LIMIT = 100


def ones():
    while True:
        yield 1


@torch.compile
def f(x):
    return x.sin() * sum(weight for weight, _ in zip(ones(), range(300)))


print(f(torch.ones(2)))

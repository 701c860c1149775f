import contextlib

import torch

depth = []


@contextlib.contextmanager
def nested(name):
    depth.append(name)
    yield
    depth.pop()


@torch.compile
def encode(x):
    with nested("encoder"):
        x = x.relu()
        print("depth", len(depth))
        x = x + 1
    return x


print(encode(torch.ones(3)))

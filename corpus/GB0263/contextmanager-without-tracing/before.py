import contextlib

import torch

torch._dynamo.config.enable_trace_contextlib = False


@contextlib.contextmanager
def scope():
    yield


@torch.compile
def f(x):
    with scope():
        return x * 2


print(f(torch.ones(2)))

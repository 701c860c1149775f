import contextlib

import torch

torch._dynamo.config.enable_trace_contextlib = False


@contextlib.contextmanager
def scope():
    yield


def f(x):
    with scope():
        return f_inside(x)


@torch.compile
def f_inside(x):
    return x * 2


print(f(torch.ones(2)))

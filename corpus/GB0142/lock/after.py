import threading

import torch
import contextlib

lock = threading.Lock()
total = []


@torch.compile
def f(x):
    with contextlib.nullcontext() if torch.compiler.is_compiling() else lock:
        y = x * 2
    return y + 1


print(f(torch.ones(2)))

import threading

import torch

lock = threading.Lock()
total = []


@torch.compile
def f(x):
    with lock:
        y = x * 2
    return y + 1


print(f(torch.ones(2)))

import threading

import torch

lock = threading.Lock()
peaks = []


@torch.compile
def f(x):
    lock.acquire()
    try:
        y = x.sin()
        peaks.append(y.max().item())
        if peaks[-1] > 100:
            raise ValueError("too large")
    finally:
        lock.release()
    return y * 2


print(f(torch.ones(3)), peaks, lock.locked())

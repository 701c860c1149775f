import threading

import torch

lock = threading.Lock()
totals = {"calls": 0}


def f(x):
    y = f_before(x)
    lock.acquire()
    totals["calls"] += 1
    lock.release()
    return f_after(y)


@torch.compile
def f_before(x):
    y = x.sin()
    return y


@torch.compile
def f_after(y):
    return y * 2


print(f(torch.ones(3)), totals)

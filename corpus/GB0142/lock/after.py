import threading

import torch

lock = threading.Lock()
total = []


def f(x):
    with lock:
        y = f_part_1(x)
    return f_part_2(y)


@torch.compile
def f_part_1(x):
    y = x * 2
    return y


@torch.compile
def f_part_2(y):
    return y + 1


print(f(torch.ones(2)))

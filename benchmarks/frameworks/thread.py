import threading

import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def work(out):
    out.append(f(torch.ones(3)))
    out.append(f(-torch.ones(3)))


out = []
t = threading.Thread(target=work, args=(out,))
t.start()
t.join()
print(out)

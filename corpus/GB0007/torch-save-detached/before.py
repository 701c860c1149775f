import os

import torch


@torch.compile
def f(x):
    y = x**2 / 2
    torch.save(y.detach(), "foo.pt")
    z = y**3 / 6
    return z


print(f(torch.arange(3.0)))
print(torch.load("foo.pt"))
os.remove("foo.pt")

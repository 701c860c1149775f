import argparse

import torch


def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


g = torch.compile(f)
p = argparse.ArgumentParser()
p.add_argument("--n", type=int, required=True)
a = p.parse_args()
print(g(torch.ones(a.n)))

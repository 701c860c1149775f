import itertools

import torch


def f(x):
    runs = [len(list(group)) for key, group in itertools.groupby([x[0], x[1]], key=lambda t: t > 0)]
    return f_after(x, runs)


@torch.compile
def f_after(x, runs):
    return x * len(runs)


print(f(torch.ones(2)))

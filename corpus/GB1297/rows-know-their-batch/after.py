import torch


def f(x):
    rows, batch = f_before(x)
    rows.append(batch)
    return batch


@torch.compile
def f_before(x):
    rows = []
    batch = (x + 1, rows)
    return rows, batch


print(f(torch.ones(2))[0])

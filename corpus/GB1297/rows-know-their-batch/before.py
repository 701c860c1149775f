import torch


@torch.compile
def f(x):
    rows = []
    batch = (x + 1, rows)
    rows.append(batch)
    return batch


print(f(torch.ones(2))[0])

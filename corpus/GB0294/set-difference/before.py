import numpy as np
import torch


@torch.compile(fullgraph=True)
def f(x, seen):
    y = torch.from_numpy(np.setdiff1d(x.numpy(), seen.numpy()))
    return y * 2


for n in (3, 4, 6):
    print(f(torch.arange(n), torch.tensor([1, n])))

import numpy as np

import torch

torch._dynamo.config.trace_numpy = False


@torch.compile
def f(x, a):
    return x + torch.from_numpy(a)


print(f(torch.ones(2), np.ones(2, dtype="float32")))

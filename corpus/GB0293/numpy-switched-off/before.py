import numpy as np
import torch

torch._dynamo.config.trace_numpy = False


@torch.compile
def f(x):
    return x + np.ones(2).sum()


print(f(torch.ones(2)))

import numpy as np

import torch

torch._dynamo.config.trace_numpy = False


def f(x, a):
    from_numpy_a = torch.from_numpy(a)
    return f_after(x, from_numpy_a)


@torch.compile
def f_after(x, from_numpy_a):
    return x + from_numpy_a


print(f(torch.ones(2), np.ones(2, dtype="float32")))

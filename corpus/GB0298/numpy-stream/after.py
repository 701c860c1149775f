import numpy as np
import torch

torch._dynamo.config.use_numpy_random_stream = True


def f(x):
    from_numpy_uniform_2 = torch.from_numpy(np.random.uniform(size=2))
    return f_after(x, from_numpy_uniform_2)


@torch.compile
def f_after(x, from_numpy_uniform_2):
    return x + from_numpy_uniform_2


np.random.seed(0)
print(f(torch.ones(2)))

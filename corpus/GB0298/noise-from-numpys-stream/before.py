import numpy as np
import torch

torch._dynamo.config.use_numpy_random_stream = True


@torch.compile
def f(x):
    return x + torch.from_numpy(np.random.uniform(size=2))


np.random.seed(0)
print(f(torch.ones(2)))

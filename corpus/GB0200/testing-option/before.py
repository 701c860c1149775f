import torch

torch._dynamo.config.inject_BUILD_SET_unimplemented_TESTING_ONLY = True


@torch.compile
def f(x):
    kinds = {x.dtype, torch.float64}
    return x * len(kinds)


print(f(torch.ones(2)))

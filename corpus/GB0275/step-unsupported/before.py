import torch


@torch.compile
def f(x):
    y = x.sin()
    torch._dynamo.step_unsupported()
    return y * 2


print(f(torch.ones(2)))

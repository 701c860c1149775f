import torch


def inner1(x):
    return x + 1


def inner2(x):
    return x + 2


@torch.compile
def fn(x):
    x = inner1(x)
    torch._dynamo.skip_frame()
    x = inner2(x)


torch.manual_seed(0)
print(fn(torch.randn(3)))

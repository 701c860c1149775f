import torch


@torch.compile
def fn(x):
    def inner(i):
        nonlocal x
        x = x + 1
        if i == 3:
            torch._dynamo.graph_break()

    inner(0)
    inner(1)
    inner(2)
    inner(3)
    inner(4)
    return x


torch.manual_seed(0)
print(fn(torch.randn(3)))

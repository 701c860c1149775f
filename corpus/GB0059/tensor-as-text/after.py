import torch


@torch.compile
def f(x):
    y = x * 2
    torch._higher_order_ops.print("y: {!s} {!s}", y, y.sum())
    return y + 1


print(f(torch.arange(3.0)))
print(f(torch.ones(3)))

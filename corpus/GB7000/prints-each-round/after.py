import torch


@torch.compile
def f(x):
    for i in range(3):
        x = x + 1
        torch._higher_order_ops.print("round {}", i)
    return x


print(f(torch.ones(2)))

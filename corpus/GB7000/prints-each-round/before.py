import torch


@torch.compile
def f(x):
    for i in range(3):
        x = x + 1
        print("round", i)
    return x


print(f(torch.ones(2)))

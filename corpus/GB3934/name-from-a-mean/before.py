import torch


@torch.compile
def f(x):
    print("mean " + f"{x.mean()}" + "!")
    return x * 2


for i in range(3):
    print(f(torch.ones(2) * i))

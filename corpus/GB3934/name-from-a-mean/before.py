import torch


@torch.compile
def f(x):
    name = "mean " + f"{x.mean()}"
    print(name + "!")
    return x * 2


for i in range(12):
    print(f(torch.ones(2) * i))

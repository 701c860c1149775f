import torch


@torch.compile
def fn(x):
    x += 1
    print("log!")
    return torch.sin(x)


print(fn(torch.ones(3, 3)))
print(fn(torch.ones(3, 3)))

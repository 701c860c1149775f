import torch


@torch.compile
def fn(x):
    for i in range(5):
        x = x + 1
    return x


torch.manual_seed(0)
print(fn(torch.randn(3)))

import torch


@torch.compile
def fn(x):
    try:
        x = x + 1
        return x + 1
    except Exception as e:
        pass


torch.manual_seed(0)
print(fn(torch.randn(3)))

import torch


@torch.compile
def fn(x):
    y = torch.sin(x, x)
    return y


try:
    fn(torch.ones(3, 3))
except Exception as e:
    print(type(e).__name__)

import torch


@torch.compile
def f(x):
    buffer = torch.empty(x.shape)
    buffer.zero_()
    return buffer + x


print(f(torch.ones(2)))

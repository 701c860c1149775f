import torch


@torch.compile
def f(x):
    buffer = torch.empty(0)
    buffer.resize_(x.shape).zero_()
    return buffer + x


print(f(torch.ones(2)))

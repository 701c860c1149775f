import torch


@torch.compile
def f(x):
    torch.accelerator.current_stream("cpu", 1)
    return x + 1


print(f(torch.ones(2)))

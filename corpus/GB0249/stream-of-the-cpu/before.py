import torch


@torch.compile
def f(x):
    stream = torch.accelerator.current_stream("cpu")
    return x + 1


print(f(torch.ones(2)))

import torch


@torch.compile
def f(x):
    event = torch.Event("cpu")
    event.elapsed_time(event)
    return x
print(f(torch.ones(2)))

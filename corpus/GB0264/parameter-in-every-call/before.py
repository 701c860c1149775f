import torch


@torch.compile
def scaled(x):
    scale = torch.nn.Parameter(torch.full((3,), 0.5))
    return x * scale


print(scaled(torch.arange(3.0)).detach())

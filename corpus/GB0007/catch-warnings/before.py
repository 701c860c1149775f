import warnings

import torch


@torch.compile
def normalize(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        std = x.std(dim=-1, keepdim=True)
    return x / (std + 1e-6)


torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)
normalize(x).square().sum().backward()
print(x.grad.norm().item() < 10)

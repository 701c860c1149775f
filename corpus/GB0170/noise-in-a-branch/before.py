import torch


@torch.compile
def jitter(x):
    if x.abs().max() < 1e-3:
        x = x + torch.randn_like(x)
    return x


torch.manual_seed(0)
print(jitter(torch.ones(3)), jitter(torch.zeros(3)))

import torch


@torch.compile
def lead(a, b):
    longer = max(a, b, key=lambda t: t.abs().sum())
    return longer - (a + b) / 2


print(lead(torch.ones(3), 2 * torch.ones(3)), lead(torch.ones(3), torch.zeros(3)))

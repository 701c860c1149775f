import torch


@torch.compile
def lead(a, b):
    return max(a, b, key=torch.norm) * 2


print(lead(torch.ones(3), 2 * torch.ones(3)), lead(torch.ones(3), torch.zeros(3)))

import torch


@torch.compile
def lead(a, b):
    return torch.cond(torch.norm(b) > torch.norm(a), lambda: b.clone(), lambda: a.clone()) * 2


print(lead(torch.ones(3), 2 * torch.ones(3)), lead(torch.ones(3), torch.zeros(3)))

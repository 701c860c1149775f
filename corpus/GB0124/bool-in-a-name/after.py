import torch


@torch.compile
def calm(x):
    hot = (x > 1).any()
    return torch.where(hot, torch.where(hot, x.clamp(max=1), 1).exp(), x * 2)


print(calm(torch.ones(3, 3)), calm(2 * torch.ones(3, 3)))

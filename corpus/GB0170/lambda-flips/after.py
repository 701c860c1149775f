import torch


@torch.compile
def align(parts):
    flip = lambda t: torch.where(t.sum() > 0, t, -t)
    return torch.stack([flip(part) for part in parts]).mean(0)


print(align([torch.ones(3), -torch.ones(3)]), align([-torch.ones(3), torch.ones(3)]))

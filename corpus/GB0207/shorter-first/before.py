import torch


@torch.compile
def shorter(xs):
    first, *_ = sorted(xs, key=lambda t: t.norm())
    return first * 2


print(shorter([torch.ones(3), 2 * torch.ones(3)]), shorter([torch.ones(3), torch.zeros(3)]))

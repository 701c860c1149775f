import torch


@torch.compile
def shifted(x, w):
    h = x.relu()
    if h.max() > 1:
        h += w
    else:
        h *= w
    return h


print(shifted(torch.ones(3), torch.ones(3)), shifted(4 * torch.ones(3), torch.ones(3)))

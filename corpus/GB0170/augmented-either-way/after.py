import torch


@torch.compile
def shifted(x, w):
    h = x.relu()

    def if_h_max_above_1(h):
        h = h.clone()
        h += w
        return h

    def otherwise(h):
        h = h.clone()
        h *= w
        return h

    h = torch.cond(h.max() > 1, if_h_max_above_1, otherwise, (h,))
    return h


print(shifted(torch.ones(3), torch.ones(3)), shifted(4 * torch.ones(3), torch.ones(3)))

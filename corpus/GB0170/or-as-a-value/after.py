import torch


@torch.compile
def masked_mean(x, mask):
    count = torch.where(mask.sum() != 0, mask.sum(), 1)  # an empty mask has a mean of zero
    return (x * mask).sum() / count


x = torch.arange(4.0)
for bound in (1.5, 9.0):
    print(masked_mean(x, x > bound))

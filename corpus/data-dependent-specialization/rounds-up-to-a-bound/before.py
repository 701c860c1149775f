import torch


@torch.compile
def dilated(mask, radius):
    for _ in range(int(radius.clamp(0, 3))):
        mask = torch.maximum(mask, mask.roll(1, 0))
    return mask * 2


start = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
print(dilated(start, torch.tensor(1)), dilated(start, torch.tensor(7)))

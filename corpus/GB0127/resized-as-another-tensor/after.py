import torch


@torch.compile
def smooth(x):
    total = x.data.new_empty(x.size()).zero_()
    for shift in range(3):
        total += x.roll(shift)
    return total / 3


print(smooth(torch.arange(4.0)))

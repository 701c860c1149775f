import torch


@torch.compile
def smooth(x):
    total = x.data.new().resize_as_(x).zero_()
    for shift in range(3):
        total += x.roll(shift)
    return total / 3


print(smooth(torch.arange(4.0)))

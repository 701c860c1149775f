import torch


@torch.compile
def halve(x):
    steps = torch.zeros(())
    while (x.abs() > 1).any() & (steps < 10):
        x = x * 0.5
        steps = steps + 1
    return x, steps


print(halve(torch.tensor([3.0, 5.0])))

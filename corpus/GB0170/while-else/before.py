import torch


@torch.compile
def settle(x):
    while x.abs().max() > 1:
        x = x * 0.5
    else:
        # The rest of it.
        x = x + 0.25
    return x


print(settle(torch.tensor([3.0, -5.0])))
print(settle(torch.tensor([0.5, 0.1])))

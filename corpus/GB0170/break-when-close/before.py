import torch


@torch.compile
def settle(x, rounds=6):
    """Averages neighbours until little changes."""
    y = x * 1.0
    for _ in range(rounds):
        new = 0.5 * y + 0.25 * (y.roll(1) + y.roll(-1))
        if (new - y).abs().max() < 0.05:
            break
        y = new
    return y


print(settle(torch.tensor([0.0, 4.0, 0.0, 4.0])))
print(settle(torch.ones(4)))

import torch


@torch.compile
def settle(x, rounds=6):
    """Averages neighbours until little changes."""
    y = x * 1.0
    done = torch.tensor(False, device=y.device)
    for _ in range(rounds):
        new = 0.5 * y + 0.25 * (y.roll(1) + y.roll(-1))
        done = done | ((new - y).abs().max() < 0.05)
        y = torch.where(done, y, new)
    return y


print(settle(torch.tensor([0.0, 4.0, 0.0, 4.0])))
print(settle(torch.ones(4)))

"""A root is refined until it is good enough, in so many rounds at most, with gradients."""

import torch


@torch.compile(backend="aot_eager")
def root(value, tolerance=1e-4, most=12):
    guess = torch.ones_like(value)
    change = torch.tensor(float("inf"))
    rounds = 0
    done = torch.tensor(False, device=guess.device)
    while rounds < most:
        done = done | torch.logical_not(change > tolerance)
        refined = 0.5 * (guess + value / torch.where(done, 1, guess))
        change = (refined - guess).abs().max()
        guess = torch.where(done, guess, refined)
        rounds += 1
    return guess


for top in (4.0, 1.0, 900.0):
    value = torch.tensor([1.0, top], requires_grad=True)
    result = root(value)
    result.sum().backward()
    print(result, value.grad)

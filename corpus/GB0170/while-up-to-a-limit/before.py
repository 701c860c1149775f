"""A root is refined until it is good enough, in so many rounds at most, with gradients."""

import torch


@torch.compile(backend="aot_eager")
def root(value, tolerance=1e-4, most=12):
    guess = torch.ones_like(value)
    change = torch.tensor(float("inf"))
    rounds = 0
    while change > tolerance and rounds < most:
        refined = 0.5 * (guess + value / guess)
        change = (refined - guess).abs().max()
        guess = refined
        rounds += 1
    return guess


for top in (4.0, 1.0, 900.0):
    value = torch.tensor([1.0, top], requires_grad=True)
    result = root(value)
    result.sum().backward()
    print(result, value.grad)

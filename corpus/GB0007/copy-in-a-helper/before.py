import copy

import torch


def polynomial(x, coefficients: list[float]):
    kept = copy.copy(coefficients)
    kept.append(1.0)
    total = torch.zeros_like(x)
    for power, coefficient in enumerate(kept):
        total = total + coefficient * x**power
    return total


@torch.compile
def f(x):
    return polynomial(x.sin(), [0.5, 0.25]).relu()


print(f(torch.arange(3.0)))
print(f(torch.ones(3)))

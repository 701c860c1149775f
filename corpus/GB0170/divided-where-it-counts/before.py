"""A sum is a mean where anything counts; the derivative of the arm not taken is 0 / 0."""

import torch


@torch.compile
def loss(x, kept):
    count = kept.sum()
    total = (x.square() * kept).sum()
    if count > 0:
        total = total / count
    return total


for kept in ([1, 0, 1], [0, 0, 0]):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = loss(x, torch.tensor(kept))
    found.backward()
    print(f"{found.item():.4f} {x.grad.tolist()}")

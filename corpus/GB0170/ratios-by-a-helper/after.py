"""A loss for each class that an image has: what a class adds comes from a function of the file."""

import torch


def ratio(inside: torch.Tensor, chosen: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    both = (inside * chosen).sum()
    return (2 * both + eps) / (inside.sum() + chosen.sum()).clamp(min=eps)


def loss_of(scores: torch.Tensor, labels: torch.Tensor, skip: bool = True) -> torch.Tensor:
    shares = scores.log_softmax(1).exp()
    losses = []
    losses_kept = []
    for number in range(scores.shape[1]):
        chosen = labels == number
        skips = (chosen.sum() == 0) & bool(skip)
        losses.append(1 - ratio(torch.where(skips, 1, shares[:, number]), chosen.type_as(scores)))
        losses_kept.append(torch.logical_not(skips))
    if not losses:
        return scores.sum() * 0.0
    return torch.where(
        torch.stack(losses_kept).any(),
        torch.where(torch.stack(losses_kept), torch.stack(losses), 0).sum() / torch.stack(losses_kept).sum().clamp(min=1),
        scores.sum() * 0.0,
    )


torch.manual_seed(0)
loss = torch.compile(loss_of)
for most in (3, 2, 1):
    scores = torch.randn(2, 3, 5, requires_grad=True)
    value = loss(scores, torch.randint(0, most, (2, 5)))
    value.backward()
    print(f"{value.item():.5f} {scores.grad.norm().item():.5f}")

"""A loss over the errors of each class in their order; classes that nothing belongs to are left out."""

from itertools import filterfalse

import torch


def is_nan(x):
    return x != x


def mean(values, leave_out=False):
    values = iter(values)
    if leave_out:
        values = filterfalse(is_nan, values)
    total, n = next(values), 1
    for n, value in enumerate(values, 2):
        total = total + value
    return total / n


def steps(truth):
    """How much each further error counts."""
    rest = truth.sum() - truth.cumsum(0)
    share = 1 - rest / (truth.sum() + (1 - truth).cumsum(0))
    share[1:] = share[1:] - share[:-1].clone()
    return share


def ordered_errors(chances, labels):
    C = chances.size(1)
    losses = []
    for c in range(C):
        truth = (labels == c).float()
        if truth.sum() == 0:
            continue
        given = chances[:, 0] if C == 1 else chances[:, c]
        errors, places = torch.sort((truth - given).abs(), 0, descending=True)
        losses.append(torch.dot(errors, steps(truth[places.data])))
    return mean(losses)


class Loss(torch.nn.Module):
    def forward(self, scores, labels):
        return ordered_errors(scores.softmax(1), labels)


if __name__ == "__main__":
    torch.manual_seed(0)
    loss = torch.compile(Loss())
    for top in (3, 2, 1):
        scores = torch.randn(12, 3, requires_grad=True)
        value = loss(scores, torch.randint(0, top, (12,)))
        value.backward()
        print(f"{value.item():.4f} {scores.grad.norm().item():.4f}")

"""Neighbours that fall are merged to their mean, in Python; the class says what their gradient is."""

import torch


def merged(values, slack):
    runs = []
    for value in values:
        runs.append([value, 1])
        while len(runs) > 1 and runs[-2][0] > runs[-1][0] + slack:
            (a, n), (b, m) = runs[-2:]
            runs[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    return runs


class Rising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, row, slack):
        runs = merged(row.detach().numpy(), slack)
        ctx.lengths = [length for _, length in runs]
        parts = [torch.full((length,), float(mean), dtype=row.dtype) for mean, length in runs]
        return torch.cat(parts).view(row.shape)

    @staticmethod
    def backward(ctx, grad):
        means = [part.mean().expand_as(part) for part in grad.split(ctx.lengths)]
        return torch.cat(means), None


@torch.compile
def loss(logits, target):
    return (Rising.apply(logits * 2, 0.1) - target).square().sum()


torch.manual_seed(0)
logits = torch.randn(6, requires_grad=True)
loss(logits, torch.linspace(-1, 1, 6)).backward()
print(logits.grad)

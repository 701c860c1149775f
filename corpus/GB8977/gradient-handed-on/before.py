import torch
from torch import nn


def each(function, items):
    return [function(item) for item in items]


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.mix = nn.Linear(3, 3)

    def forward(self, a, b):
        factor = self.factor

        class ScaleBack(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return grad * factor

        a, b = each(ScaleBack.apply, (a, b))
        return self.mix(a) * b


torch.manual_seed(0)
scaled = torch.compile(Scaled(0.5))
for rows in (2, 4):
    a = torch.randn(rows, 3, requires_grad=True)
    scaled(a, torch.ones(rows, 3)).sum().backward()
    print(f"{a.grad.sum().item():.4f}")

import torch
from torch import nn


class Reversal(nn.Module):
    def __init__(self, strength):
        super().__init__()
        self.strength = strength
        self.head = nn.Linear(6, 2)

    def reversed(self, x):
        strength = self.strength / x.size(0)

        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, features):
                return features.view_as(features)

            @staticmethod
            def backward(ctx, grad):
                return -strength * grad

        return Reverse.apply(x)

    def forward(self, x):
        return self.head(self.reversed(torch.tanh(x)))


torch.manual_seed(0)
domains = torch.compile(Reversal(0.5))
for rows in (4, 3):
    x = torch.randn(rows, 6, requires_grad=True)
    loss = nn.functional.cross_entropy(domains(x), torch.ones(rows, dtype=torch.int64))
    loss.backward()
    print(f"{loss.item():.4f} {x.grad.norm().item():.4f}")

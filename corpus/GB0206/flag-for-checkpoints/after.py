"""A speech encoder makes its input require a gradient, so that checkpoints have something to do."""

import torch
from torch import nn


class _RequiresGrad(torch.autograd.Function):
    """Hands on a tensor as one that requires a gradient, as long as gradients are recorded."""

    @staticmethod
    def forward(ctx, x, anchor):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


_ANCHOR = torch.zeros((), requires_grad=True)


class FeatureEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(1, 4, 5, stride=2), nn.Conv1d(4, 4, 3)])
        self._requires_grad = True

    def freeze(self):
        for parameter in self.parameters():
            parameter.requires_grad = False
        self._requires_grad = False

    def forward(self, samples):
        hidden = samples[:, None]

        # make sure that the input requires a gradient for gradient checkpointing
        if self._requires_grad and self.training:
            hidden = _RequiresGrad.apply(hidden, _ANCHOR)

        for layer in self.layers:
            hidden = torch.relu(layer(hidden))
        return hidden


torch.manual_seed(0)
encoder = FeatureEncoder()
compiled = torch.compile(encoder)
features = compiled(torch.randn(2, 40))
features.square().mean().backward()
print(features.shape, encoder.layers[0].weight.grad.shape)

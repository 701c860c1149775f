"""A layer warns of a slow input once: it sets a filter, and warns no more."""

import warnings

import torch
from torch import nn


@torch.library.custom_op("before::warn_look", mutates_args=())
def warn_look(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    warnings.warn("inputs of float32 are slow here")
    warnings.filterwarnings("ignore", message=".*slow here")


warn_look.register_fake(lambda anchor: None)
warn_look.register_effect(torch.library.EffectType.ORDERED)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.known = False

    def look(self, x):
        if x.dtype == torch.float32 and x.shape[0] > 1:
            warn_look(torch.empty(0))

    def forward(self, x):
        if not self.known:
            self.look(x)
            self.known = True
        return self.lin(x).relu()


torch.manual_seed(0)
layer = torch.compile(Layer(4))
print(layer(torch.randn(3, 4)).sum())
print(layer(torch.randn(3, 4)).sum())

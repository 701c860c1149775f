import warnings

import torch


def deprecate(name, message, category=FutureWarning, stacklevel=2):
    warnings.warn(f"`{name}` is deprecated: {message}", category, stacklevel=stacklevel)


class Upsample(torch.nn.Module):
    def forward(self, x, scale=None):
        if scale is not None:
            deprecate("scale", "it is ignored")
        return torch.nn.functional.interpolate(x, scale_factor=2.0)


model = torch.compile(Upsample())
model(torch.ones(1, 2, 4, 4), scale=1.0)

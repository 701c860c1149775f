import warnings

import torch


def deprecate(name, message, category=FutureWarning, stacklevel=2):
    warnings.warn(f"`{name}` is deprecated: {message}", category, stacklevel=stacklevel)


@torch.library.custom_op("before::deprecate_forward", mutates_args=())
def deprecate_forward(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    deprecate("scale", "it is ignored")


deprecate_forward.register_fake(lambda anchor: None)
deprecate_forward.register_effect(torch.library.EffectType.ORDERED)


class Upsample(torch.nn.Module):
    def forward(self, x, scale=None):
        if scale is not None:
            deprecate_forward(torch.empty(0))
        return torch.nn.functional.interpolate(x, scale_factor=2.0)


model = torch.compile(Upsample())
model(torch.ones(1, 2, 4, 4), scale=1.0)

import warnings

import torch


def deprecated(what, instead="`size`"):
    warnings.warn(f"{what} is deprecated: give {instead}", FutureWarning, stacklevel=2)


@torch.library.custom_op("before::deprecated_pooled", mutates_args=())
def deprecated_pooled(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    deprecated("the default of size")


deprecated_pooled.register_fake(lambda anchor: None)
deprecated_pooled.register_effect(torch.library.EffectType.ORDERED)


def pooled(x, size=None):
    if size is None:
        deprecated_pooled(torch.empty(0))
        size = 2
    return x.unflatten(-1, (-1, size)).mean(-1)


@torch.compile
def f(x):
    return pooled(x).relu()


warnings.simplefilter("always")
print(f(torch.arange(4.0)), f(torch.ones(4)))

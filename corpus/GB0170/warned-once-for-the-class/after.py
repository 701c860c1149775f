"""An adapter that warns once for all of its kind where its part is much larger than the rest."""

import warnings

import torch
from torch import nn


@torch.library.custom_op(f"{__name__.replace('.', '_')}::warn_forward", mutates_args=())
def warn_forward(part: torch.Tensor, base: torch.Tensor) -> None:
    if not Adapter._warned and part.abs().max() > 3 * base.abs().max():
        warnings.warn("the adapter's part is large")
        Adapter._warned = True


warn_forward.register_fake(lambda part, base: None)
warn_forward.register_effect(torch.library.EffectType.ORDERED)


class Adapter(nn.Module):
    _warned = False

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(4, 3)
        self.part = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        base, part = self.base(x), self.part(x) * 9
        warn_forward(part, base)
        return base + part


torch.manual_seed(0)
adapter = torch.compile(Adapter(), backend="aot_eager")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        total = adapter(torch.randn(2, 4)).sum().item()
        said = sum("adapter" in str(one.message) for one in caught)
        print(f"{total:.5f} {said} {Adapter._warned}")

import functools
import logging

import torch

logger = logging.getLogger(__name__)


@functools.lru_cache(maxsize=None)
def log_once(level, message):
    logger.log(level, message)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_once_forward", mutates_args=())
def log_once_forward(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    log_once(logging.WARNING, "no fused kernel: the native one is used")


log_once_forward.register_fake(lambda anchor: None)
log_once_forward.register_effect(torch.library.EffectType.ORDERED)


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):
        log_once_forward(torch.empty(0))
        return self.norm(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(torch.nn.Sequential(Norm(), Norm()), backend="aot_eager")
    for _ in range(2):
        out = model(torch.randn(2, 4))
    print(out)

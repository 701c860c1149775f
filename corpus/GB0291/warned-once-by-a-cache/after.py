import functools
import logging

import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
logger = logging.getLogger(__name__)


@functools.lru_cache(None)
def warning_once(message):
    logger.warning(message)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::warning_once_forward", mutates_args=())
def warning_once_forward(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    warning_once("use_cache=True is incompatible with gradient checkpointing")


warning_once_forward.register_fake(lambda anchor: None)
warning_once_forward.register_effect(torch.library.EffectType.ORDERED)


class Block(nn.Module):
    def __init__(self, checkpointing=True):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.checkpointing = checkpointing

    def forward(self, x, use_cache=True):
        if self.checkpointing and self.training and use_cache:
            warning_once_forward(torch.empty(0))
            use_cache = False
        y = self.fc(x).relu()
        return (y, x) if use_cache else (y, None)


torch.manual_seed(0)
model = torch.compile(Block())
for _ in range(3):
    y, kept = model(torch.randn(2, 4))
    y.sum().backward()
    print(y.shape, kept)

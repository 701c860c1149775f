import logging

import torch

logger = logging.getLogger("corpus.sizes")


@torch.library.custom_op("before::log_forward", mutates_args=())
def log_forward(anchor: torch.Tensor) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    logger.info("the size is forced")


log_forward.register_fake(lambda anchor: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Down(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 2, 3, stride=2, padding=1)

    def forward(self, x):
        size = None
        if x.shape[-1] % 4 != 0:
            log_forward(torch.empty(0))
            size = x.shape[-1]
        y = self.conv(x)
        return torch.nn.functional.interpolate(y, size=size or 2 * y.shape[-1])


torch.manual_seed(0)
down = torch.compile(Down())
with torch.no_grad():
    for size in (8, 8, 8, 9):
        print(f"{down(torch.rand(1, 2, size)).sum().item():.4f}")

import functools
import logging

import torch

logger = logging.getLogger(__name__)


@functools.lru_cache(maxsize=None)
def log_once(level, message):
    logger.log(level, message)


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):
        log_once(logging.WARNING, "no fused kernel: the native one is used")
        return self.norm(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(torch.nn.Sequential(Norm(), Norm()), backend="aot_eager")
    for _ in range(2):
        out = model(torch.randn(2, 4))
    print(out)

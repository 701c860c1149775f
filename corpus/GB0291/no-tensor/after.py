import logging
import sys

import torch

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
logger = logging.getLogger(__name__)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_forward", mutates_args=())
def log_forward(anchor: torch.Tensor, tag: str) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    logger.info("forward of %s", tag)


log_forward.register_fake(lambda anchor, tag: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self, tag):
        super().__init__()
        self.tag = tag
        self.project = torch.nn.Linear(4, 2)

    def forward(self, x):
        y = self.project(x)
        log_forward(torch.empty(0), self.tag)
        return y.relu()


torch.manual_seed(0)
net = Net("head")
compiled = torch.compile(net)
for rows in (1, 1):
    compiled(torch.ones(rows, 4)).sum().backward()
    print(net.project.weight.grad)

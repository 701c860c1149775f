import logging
import sys

import torch

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
logger = logging.getLogger(__name__)


class Net(torch.nn.Module):
    def __init__(self, tag):
        super().__init__()
        self.tag = tag
        self.project = torch.nn.Linear(4, 2)

    def forward(self, x):
        y = self.project(x)
        logger.info("forward of %s", self.tag)
        return y.relu()


torch.manual_seed(0)
net = Net("head")
compiled = torch.compile(net)
for rows in (1, 1):
    compiled(torch.ones(rows, 4)).sum().backward()
    print(net.project.weight.grad)

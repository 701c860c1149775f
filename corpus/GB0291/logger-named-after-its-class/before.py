import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.logger = logging.getLogger(self.__class__.__name__)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.layer(x)
        self.logger.info("largest activation %.3f", hidden.max().item())
        return hidden.relu()


class Wide(Net):
    pass


for kind in (Net, Wide):
    net = torch.compile(kind())
    print(net(torch.ones(2, 4)).shape)

import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")


@torch.library.custom_op("before::log_forward", mutates_args=())
def log_forward(hidden: torch.Tensor, logger_name: str) -> None:
    logging.getLogger(logger_name).info("largest activation %.3f", hidden.max().item())


log_forward.register_fake(lambda hidden, logger_name: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.logger = logging.getLogger(self.__class__.__name__)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.layer(x)
        log_forward(hidden, self.__class__.__name__)
        return hidden.relu()


class Wide(Net):
    pass


for kind in (Net, Wide):
    net = torch.compile(kind())
    print(net(torch.ones(2, 4)).shape)

import logging

import torch


@torch.library.custom_op("before::log_forward", mutates_args=())
def log_forward(y: torch.Tensor) -> None:
    if logging.getLogger("net").isEnabledFor(logging.DEBUG):
        logging.getLogger("net").debug("mean %.3f of %s", y.mean().item(), tuple(y.shape))


log_forward.register_fake(lambda y: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
        self.logger = logging.getLogger("net")

    def forward(self, x):
        y = self.fc(x)
        log_forward(y)
        return y.relu()


logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s")
torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.ones(3, 2)))
logging.getLogger("net").setLevel(logging.INFO)
print(net(torch.zeros(3, 2)))

import logging

import torch
import weakref

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")


class OfRun(logging.LoggerAdapter):
    def process(self, msg, kwargs):
        return f"run {self.extra['run']}: {msg}", kwargs


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_forward", mutates_args=())
def log_forward(y: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    owner.log.info("norm %.3f", y.norm().item())


log_forward.register_fake(lambda y, owner_id: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Head(torch.nn.Module):
    def __init__(self, run):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.log = OfRun(logging.getLogger("head"), {"run": run})

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x):
        y = self.fc(x)
        log_forward(y, id(self))
        return y.tanh()


torch.manual_seed(0)
head = torch.compile(Head("b2"))
for rows in (2, 3):
    head(torch.randn(rows, 3)).sum().backward()

"""A base class keeps what its subclasses log: the objects of all of them are found again."""

import torch
from torch import nn
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_log", mutates_args=())
def keep_log(name: str, value: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    owner.shown[name] = value.item()


keep_log.register_fake(lambda name, value, owner_id: None)
keep_log.register_effect(torch.library.EffectType.ORDERED)


class Logged(nn.Module):
    def __init__(self):
        super().__init__()
        self.shown = {}

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def log(self, name, value):
        keep_log(name, value, id(self))


class Small(Logged):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)

    def forward(self, x):
        y = self.lin(x)
        self.log("mean", y.detach().mean())
        return y.relu()


class Large(Logged):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 8)

    def forward(self, x):
        y = self.lin(x)
        self.log("most", y.detach().max())
        return y.sigmoid()


torch.manual_seed(0)
small, large = Small(), Large()
compiled = torch.compile(small)
print(compiled(torch.randn(3, 4)).sum(), compiled(torch.randn(3, 4)).sum(), small.shown)
print(large(torch.randn(3, 4)).sum(), large.shown)

"""A loss that tells its mean every third time; the count would be compiled into each graph."""

import torch
from torch import nn
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::print_forward", mutates_args=())
def print_forward(loss: torch.Tensor, every: torch.types.Number, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    owner.times += 1
    owner.total += loss.item()
    if owner.times % every == 0:
        print(f"{owner.times}: {owner.total / every:.3f}")
        owner.total = 0.0


print_forward.register_fake(lambda loss, every, owner_id: None)
print_forward.register_effect(torch.library.EffectType.ORDERED)


class Told(nn.Module):
    def __init__(self, width=4, every=3):
        super().__init__()
        self.layer = nn.Linear(width, 1)
        self.every, self.times, self.total = every, 0, 0.0

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x, y):
        loss = (self.layer(x).squeeze(-1) - y).square().mean()
        print_forward(loss, self.every, id(self))
        return loss


torch.manual_seed(0)
model = Told()
step = torch.compile(model)
for _ in range(6):
    step(torch.randn(8, 4), torch.randn(8)).backward()
print(model.times)

import torch
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::print_forward", mutates_args=())
def print_forward(y: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    if torch.isinf(y).any():
        owner.repaired += 1
        print(f"repaired {int(torch.isinf(y).sum())} of {y.numel()}")


print_forward.register_fake(lambda y, owner_id: None)
print_forward.register_effect(torch.library.EffectType.ORDERED)


class Repair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.repaired = 0

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x):
        y = x.exp()
        print_forward(y, id(self))
        y = torch.where(torch.isinf(y).any(), torch.nan_to_num(y, posinf=1.0), y)
        return y


repair = Repair()
f = torch.compile(repair)
for scale in (1.0, 100.0):
    print(f(torch.arange(3.0) * scale))
print(repair.repaired)

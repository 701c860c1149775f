import torch
from tqdm import tqdm
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_forward", mutates_args=())
def keep_forward(anchor: torch.Tensor, owner_id: int) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    owner = OWNERS[owner_id]
    owner.bar.update()


keep_forward.register_fake(lambda anchor, owner_id: None)
keep_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self, bar):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.bar = bar

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x):
        x = self.layer(x)
        keep_forward(torch.empty(0), id(self))
        return x.relu()


net = torch.compile(Net(tqdm(total=2, disable=True)))
for step in range(2):
    print(net(torch.ones(3)).shape)

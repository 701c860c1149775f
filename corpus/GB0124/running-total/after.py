import torch
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_forward", mutates_args=())
def keep_forward(loss: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    owner.total += loss.item()


keep_forward.register_fake(lambda loss, owner_id: None)
keep_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 1)
        self.total = 0.0

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x, target):
        loss = (self.layer(x) - target).abs().mean()
        keep_forward(loss, id(self))
        return loss

    def __getstate__(self):
        return {**self.__dict__, "total": 0.0}


net = Net()
step = torch.compile(net)
for target in (0.0, 1.0):
    step(torch.ones(2, 4), torch.full((2, 1), target)).backward()
print(f"{net.total:.4f} {net.layer.weight.grad.sum().item():.4f}")

import torch
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_forward", mutates_args=())
def keep_forward(loss: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    if loss.item() < owner.best:
        owner.best = loss.item()
        owner.misses = 0
    else:
        owner.misses += 1


keep_forward.register_fake(lambda loss, owner_id: None)
keep_forward.register_effect(torch.library.EffectType.ORDERED)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.best = float("inf")
        self.misses = 0

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x):
        loss = self.layer(x).pow(2).mean()
        keep_forward(loss, id(self))
        return loss


torch.manual_seed(0)
model = Model()
step = torch.compile(model)
for scale in (3.0, 1.0, 2.0):
    step(scale * torch.ones(2, 3)).backward()
print(round(model.best, 3), model.misses)

import torch
import torch.nn.functional as F
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_step", mutates_args=())
def keep_step(loss: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    value = loss.item()
    owner.losses.append(value)
    if value < owner.lowest:
        owner.lowest = value
        print(f"lowest loss {value:.4f} in step {len(owner.losses)}")


keep_step.register_fake(lambda loss, owner_id: None)
keep_step.register_effect(torch.library.EffectType.ORDERED)


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 2)
        self.losses = []
        self.lowest = float("inf")

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        keep_step(loss, id(self))
        return loss


torch.manual_seed(0)
trainer = Trainer()
step = torch.compile(trainer.step)
for _ in range(2):
    step(torch.randn(6, 4), torch.zeros(6, 2)).backward()
print(len(trainer.losses), round(trainer.lowest, 4))

import collections
import statistics

import torch
import weakref

torch._dynamo.config.capture_scalar_outputs = True


class Window:
    """Weighs down losses that are far above the last ones."""

    def __init__(self, size=4):
        self.recent = collections.deque(maxlen=size)
        self.outliers = 0

    def weight(self, value):
        if len(self.recent) > 1 and value > 3 * statistics.median(self.recent):
            self.outliers += 1
            return 0.1
        self.recent.append(value)
        return 1.0


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::weight_forward", mutates_args=())
def weight_forward(loss: torch.Tensor, owner_id: int) -> torch.Tensor:
    owner = OWNERS[owner_id]
    weight = owner.window.weight(loss.item())
    if type(weight) is not float:
        raise TypeError(f"{type(weight).__name__} where float is carried")
    return torch.tensor(weight, dtype=torch.float64)


weight_forward.register_fake(lambda loss, owner_id: torch.empty((), dtype=torch.float64))
weight_forward.register_effect(torch.library.EffectType.ORDERED)


class Trainer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 1)
        self.window = Window()

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x, y):
        loss = (self.net(x).squeeze(-1) - y).square().mean()
        weight = weight_forward(loss.detach(), id(self)).item()
        return loss * weight


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer()
    step = torch.compile(trainer, backend="aot_eager")
    for scale in (1.0, 1.0, 1.0, 9.0):
        loss = step(torch.randn(6, 3) * scale, torch.randn(6))
        loss.backward()
    print(loss.item(), trainer.window.outliers, len(trainer.window.recent))

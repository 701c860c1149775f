import torch
import weakref


class Recorder:
    def __init__(self):
        self.rows = []

    def scalar(self, name, value):
        self.rows.append((name, float(value)))

    def extremes(self, name, values):
        values = values.detach().cpu().numpy()
        self.rows.append((name, values.min(), values.max()))


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::scalar_forward", mutates_args=())
def scalar_forward(h: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    owner.recorder.scalar("norm", h.norm())
    owner.recorder.extremes("hidden", h)


scalar_forward.register_fake(lambda h, owner_id: None)
scalar_forward.register_effect(torch.library.EffectType.ORDERED)


class Encoder(torch.nn.Module):
    def __init__(self, recorder):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.recorder = recorder

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x):
        h = self.layer(x)
        if self.training:
            scalar_forward(h, id(self))
        return h.relu()


torch.manual_seed(0)
recorder = Recorder()
encoder = torch.compile(Encoder(recorder))
for _ in range(2):
    encoder(torch.ones(3, 4)).sum().backward()
print(len(recorder.rows), recorder.rows[-1][0])

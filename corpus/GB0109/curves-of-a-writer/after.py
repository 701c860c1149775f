import torch
import weakref


class Writer:
    """Keeps curves, as writers of event files do."""

    def __init__(self):
        self.curves = {}

    def add_scalar(self, tag, value, step):
        self.curves.setdefault(tag, []).append((step, float(value)))

    def add_histogram(self, tag, values, step):
        counts = torch.histc(values.detach().float(), 4)
        self.curves.setdefault(tag, []).append((step, counts.tolist()))


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::add_scalar_forward", mutates_args=())
def add_scalar_forward(loss: torch.Tensor, out: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    owner.writer.add_scalar("train/loss", loss, owner.step)
    if owner.step % 2 == 0:
        owner.writer.add_histogram("train/out", out, owner.step)
    owner.step += 1


add_scalar_forward.register_fake(lambda loss, out, owner_id: None)
add_scalar_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self, writer):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.writer = writer
        self.step = 0

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x, y):
        out = self.fc(x)
        loss = (out - y).pow(2).mean()
        add_scalar_forward(loss, out, id(self))
        return loss


torch.manual_seed(0)
writer = Writer()
model = torch.compile(Net(writer))
for _ in range(3):
    model(torch.randn(8, 4), torch.randn(8, 1)).backward()
print(writer.curves)

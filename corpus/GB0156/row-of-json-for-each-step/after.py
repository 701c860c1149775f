import json
import tempfile

import torch
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::write_forward", mutates_args=())
def write_forward(step: torch.types.Number, loss: torch.Tensor, out: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    row = {"step": step, "loss": loss.item(), "mean": round(out.mean().item(), 4)}
    owner.file.write(json.dumps(row) + "\n")


write_forward.register_fake(lambda step, loss, out, owner_id: None)
write_forward.register_effect(torch.library.EffectType.ORDERED)


class Loss(torch.nn.Module):
    def __init__(self, file):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.file = file
        self.step = 0

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward(self, x, y):
        out = self.fc(x)
        loss = (out - y).pow(2).mean()
        write_forward(self.step, loss, out, id(self))
        self.step += 1
        return loss * 2


torch.manual_seed(0)
file = tempfile.TemporaryFile("w+")
model = torch.compile(Loss(file))
for _ in range(3):
    model(torch.randn(8, 4), torch.randn(8, 1)).backward()
file.seek(0)
print(file.read())

import torch
import torch.nn.functional as F


class Journal:
    def __init__(self):
        self.lines = []

    def note(self, **values):
        self.lines.append(", ".join(f"{name} {value:.2f}" for name, value in values.items()))


journal = Journal()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::note_step", mutates_args=())
def note_step(loss: torch.Tensor) -> None:
    journal.note(loss=loss.item(), rate=0.1)


note_step.register_fake(lambda loss: None)
note_step.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def step(x, w, target):
    loss = F.binary_cross_entropy(torch.sigmoid(x @ w), target)
    note_step(loss)
    return loss


x = torch.arange(6.0).reshape(3, 2) / 6
w = torch.tensor([1.0, -1.0], requires_grad=True)
for _ in range(2):
    step(x, w, torch.tensor([0.0, 1.0, 1.0])).backward()
print(journal.lines)

import copy

import torch
import itertools
import weakref


class Handle:
    """Leads an operator to the object that keeps what it adds; a copy of that has its own."""

    owners = weakref.WeakValueDictionary()
    numbers = itertools.count()

    def __init__(self, owner):
        number = next(Handle.numbers)
        self.number = torch.tensor(number, device="cpu")
        self.owner = weakref.ref(owner)
        Handle.owners[number] = owner

    def __deepcopy__(self, memo):
        return Handle(copy.deepcopy(self.owner(), memo))

    def __reduce__(self):
        return Handle, (self.owner(),)


@torch.library.custom_op("before::keep_forward", mutates_args=())
def keep_forward(loss: torch.Tensor, handle: torch.Tensor) -> None:
    owner = Handle.owners[handle.item()]
    owner.losses.append(loss.item())


keep_forward.register_fake(lambda loss, handle: None)
keep_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.handle = Handle(self)
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 1)
        self.losses = []
        self.steps = 0

    def forward(self, x, target):
        loss = (self.layer(x) - target).abs().mean()
        keep_forward(loss, self.handle.number)
        self.steps += 1
        return loss


net = Net()
step = torch.compile(net)
for target in (0.0, 1.0):
    step(torch.ones(2, 4), torch.full((2, 1), target)).backward()
other = copy.deepcopy(net)
other.losses.clear()
torch.compile(other)(torch.ones(2, 4), torch.zeros(2, 1))
print([round(loss, 4) for loss in net.losses], net.steps, len(other.losses))

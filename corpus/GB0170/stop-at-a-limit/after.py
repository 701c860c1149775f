"""A policy's update that asks for a stop when it went too far, where there is a limit at all."""

import torch
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_call", mutates_args=())
def keep_call(limit: torch.types.Number, far: torch.Tensor, owner_id: int) -> None:
    owner = OWNERS[owner_id]
    if limit is not None and far > limit:
        owner.stop = True


keep_call.register_fake(lambda limit, far, owner_id: None)
keep_call.register_effect(torch.library.EffectType.ORDERED)


class Update:
    def __init__(self, policy, limit):
        self.policy, self.limit = policy, limit
        self.stop = False

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def __call__(self, states, before, gains):
        ratio = self.policy(states).squeeze(-1) - before
        with torch.no_grad():
            far = (ratio.exp() - 1 - ratio).mean()
            if self.limit is not None:
                keep_call(self.limit, far, id(self))
        return -(ratio.exp() * gains).mean()


DONE = []


def train(limit):
    torch.manual_seed(0)
    update = Update(torch.nn.Linear(3, 1), limit)
    compiled = torch.compile(update.__call__)
    optimizer = torch.optim.SGD(update.policy.parameters(), lr=1.0)
    states, gains = torch.randn(6, 3), torch.randn(6)
    before = update.policy(states).squeeze(-1).detach()
    for step in range(4):
        loss = compiled(states, before, gains)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update.stop:
            break
    DONE.append(update)
    print(limit, step, round(loss.item(), 4))


train(0.2)
train(None)

"""A criterion whose numbers for the log go through a helper that takes nearly everything."""

import torch
from torch.nn import functional as F

torch._dynamo.config.capture_scalar_outputs = True


def plain(value):
    if type(value) not in (int, float) and hasattr(value, "item"):
        value = value.item()
    if type(value) not in (int, float) and hasattr(value, "__getitem__"):
        value = value[0]
    return value


@torch.library.custom_op("before::plain_op", mutates_args=())
def plain_op(loss: torch.Tensor) -> torch.Tensor:
    return torch.tensor(plain(loss.data), dtype=torch.float64)


plain_op.register_fake(lambda loss: torch.empty((), dtype=torch.float64))


@torch.compile
def criterion(logits, target):
    loss = F.cross_entropy(logits, target)
    right = (logits.argmax(-1) == target).sum()
    return loss, {"loss": plain_op(loss.detach()).item(), "right": plain(right), "seen": plain(target.numel())}


torch.manual_seed(0)
for _ in range(2):
    logits = torch.randn(5, 3, requires_grad=True)
    loss, log = criterion(logits, torch.randint(0, 3, (5,)))
    loss.backward()
    print({name: round(value, 4) for name, value in log.items()})

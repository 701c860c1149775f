import logging

import torch

log = logging.getLogger("steps")
log.setLevel(logging.DEBUG)
log.propagate = False
log.addHandler(logging.FileHandler("steps.log", mode="w"))


@torch.library.custom_op("before::log_step", mutates_args=())
def log_step(loss: torch.Tensor) -> None:
    log.debug("loss=%s", f"{loss.item():.4f}")


log_step.register_fake(lambda loss: None)
log_step.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def step(x, weight):
    loss = (x @ weight).square().mean()
    log_step(loss)
    return loss


weight = torch.ones(3, requires_grad=True)
for start in range(3):
    step(torch.arange(6.0).view(2, 3) + start, weight).backward()
with open("steps.log") as file:
    print(file.read())

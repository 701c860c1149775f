import logging

import torch

log = logging.getLogger("steps")
log.setLevel(logging.DEBUG)
log.propagate = False
log.addHandler(logging.FileHandler("steps.log", mode="w"))


@torch.compile
def step(x, weight):
    loss = (x @ weight).square().mean()
    log.debug("loss=%s", f"{loss.item():.4f}")
    return loss


weight = torch.ones(3, requires_grad=True)
for start in range(3):
    step(torch.arange(6.0).view(2, 3) + start, weight).backward()
with open("steps.log") as file:
    print(file.read())

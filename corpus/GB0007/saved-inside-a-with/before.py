import subprocess

import torch


@torch.compile
def step(x, weight):
    hidden = x @ weight
    for _ in range(2):
        with torch.no_grad():
            target = hidden.tanh()
            # The tool only reads its own files.
            subprocess.run(["true"], check=True)
            target = target * 2
        hidden = hidden * target
    return hidden.sum()


weight = torch.eye(3).requires_grad_()
for start in (1.0, 2.0):
    loss = step(torch.full((2, 3), start), weight)
    loss.backward()
    print(loss.item(), weight.grad.sum().item())

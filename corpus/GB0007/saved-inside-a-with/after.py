import subprocess

import torch


def step(x, weight):
    hidden = step_part_1(x, weight)
    for _ in range(2):
        with torch.no_grad():
            target = step_part_2(hidden)
            # The tool only reads its own files.
            subprocess.run(["true"], check=True)
            target = step_part_3(target)
        hidden = step_part_4(hidden, target)
    return step_part_5(hidden)


@torch.compile
def step_part_1(x, weight):
    hidden = x @ weight
    return hidden


@torch.compile
def step_part_2(hidden):
    target = hidden.tanh()
    return target


@torch.compile
def step_part_3(target):
    target = target * 2
    return target


@torch.compile
def step_part_4(hidden, target):
    hidden = hidden * target
    return hidden


@torch.compile
def step_part_5(hidden):
    return hidden.sum()


weight = torch.eye(3).requires_grad_()
for start in (1.0, 2.0):
    loss = step(torch.full((2, 3), start), weight)
    loss.backward()
    print(loss.item(), weight.grad.sum().item())

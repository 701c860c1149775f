"""A step is tried on a copy of the state: lists of tensors, and how often it was used."""

import copy

import torch


def advance(x: torch.Tensor, state: dict) -> torch.Tensor:
    for held in state["sums"]:
        held.mul_(0.9).add_(x)
        x = x + held.tanh()
    state["used"] += 1
    return x


def copied(value):
    """What `copy.deepcopy` gives for tensors without a history, and for what holds them."""
    if type(value) is torch.Tensor and not value.requires_grad:
        return value.detach().clone()
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)([copied(each) for each in value])
    return value if isinstance(value, (int, float, str, type(None))) else copy.deepcopy(value)


@torch.compile
def best_of(x: torch.Tensor, state: dict) -> torch.Tensor:
    tried = [advance(x * scale, copied(state)).sum(-1) for scale in (0.5, 1.0, 2.0)]
    place = torch.stack(tried, -1).argmax(-1, keepdim=True)
    return advance(x, state) * place


torch.manual_seed(0)
state = {"sums": [torch.zeros(2, 3), torch.ones(2, 3)], "used": 0, "name": "short"}
for _ in range(3):
    out = best_of(torch.randn(2, 3), state)
print(out, state["used"], state["sums"])

"""What the program does later with what a region was given, and gave back.

A copy instead of the input itself, or a zero gradient instead of none, matters to a program that
changes the tensor in place afterwards, or steps an optimizer; to others it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gbfix.worker.protocol import Afterwards
from gbfix.worker.values import is_plain, tensors_in, version

#: Tensors that are kept in view, for all recorded calls together.
_MOST = 200


def _containers(given: object) -> Iterator[Any]:
    """Lists, dicts and sets among what a call was given and gave back, each once."""
    seen: set[int] = set()
    left: list[Any] = [given]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue  # it may hold itself
        seen.add(id(value))
        if isinstance(value, list | dict | set):
            yield value
        if isinstance(value, list | tuple):
            left += reversed(value)
        elif type(value) is dict:
            left += reversed(value.values())


def _parts(value: Any) -> list[int]:
    """Which objects a container holds."""
    return [id(item) for item in (value.values() if type(value) is dict else list(value))]


def _tells_zeros(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step with a zero gradient does something else than one without: decay, momentum."""
    return type(optimizer) is not torch.optim.SGD or any(
        group["momentum"] or group["weight_decay"] for group in optimizer.param_groups
    )


class Afterlife:
    """Keeps tensors of recorded calls in view until the program ends."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, torch.Tensor, int]] = []
        self._containers: list[tuple[str, Any, list[int]]] = []
        self._steps = self._plain_steps = False
        register_optimizer_step_pre_hook(self._step)

    def _step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if _tells_zeros(optimizer):
            self._steps = True
        else:
            self._plain_steps = True

    def keep(self, key: str, given: object) -> None:
        """Note what a call of a region was given and gave back, as it is now."""
        for value in _containers(given):
            if len(self._containers) < _MOST:
                self._containers.append((key, value, _parts(value)))
        for _, value in tensors_in(given, "", modules=False):
            if len(self._kept) >= _MOST:
                return
            if is_plain(value) and not value.is_inference():
                # A detached view shares the counter of changes, and keeps no graph alive.
                self._kept.append((key, value.detach(), version(value)))

    def seen(self) -> Afterwards:
        """What became of them."""
        changed = {key for key, value, before in self._kept if version(value) != before}
        changed |= {key for key, value, before in self._containers if _parts(value) != before}
        return Afterwards(tuple(sorted(changed)), self._steps, self._plain_steps)

"""What the program does later with what a region was given, and gave back.

A copy instead of the input itself, or a zero gradient instead of none, matters to a program that
changes the tensor in place afterwards, or steps an optimizer; to others it does not.
"""

from __future__ import annotations

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gbfix.worker.protocol import Afterwards
from gbfix.worker.values import is_plain, tensors_in, version

#: Tensors that are kept in view, for all recorded calls together.
_MOST = 200


class Afterlife:
    """Keeps tensors of recorded calls in view until the program ends."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, torch.Tensor, int]] = []
        self._steps = False
        register_optimizer_step_pre_hook(self._step)

    def _step(self, *_: object) -> None:
        self._steps = True

    def keep(self, key: str, given: object) -> None:
        """Note what a call of a region was given and gave back, as it is now."""
        for _, value in tensors_in(given, "", modules=False):
            if len(self._kept) >= _MOST:
                return
            if is_plain(value) and not value.is_inference():
                # A detached view shares the counter of changes, and keeps no graph alive.
                self._kept.append((key, value.detach(), version(value)))

    def seen(self) -> Afterwards:
        """What became of them."""
        changed = {key for key, value, before in self._kept if version(value) != before}
        return Afterwards(tuple(sorted(changed)), self._steps)

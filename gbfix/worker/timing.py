"""Times one region as the user compiles it, turn by turn with a process that runs the other text.

Two programs on one machine disturb each other, and a machine is not as fast now as it was a minute
ago.  So the two take turns: each step (compiling, a batch of calls) of the one runs while the other
waits, and what is compared are steps that were next to each other.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from gbfix.worker.protocol import Timed

#: Batches of calls, each at least so many seconds long and at most so many calls.
BATCHES = 15
_BATCH_SECONDS = 0.01
_MOST_CALLS = 2000
#: Seconds that one region may take beyond its compilation.
_REGION_SECONDS = 20.0
_WARM = 3
#: The end of what stands in the file while no region is being timed.
_FREE = " end 0"


class Turns:
    """A baton for two processes: a file that names the one whose turn it is.

    ``gone-0`` and ``gone-1`` say that a side takes no more turns.
    """

    def __init__(self, folder: str, side: int, limit: float) -> None:
        self._folder = folder
        self._side = side
        self._limit = limit

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def take(self, label: str) -> bool:
        """Wait for the turn; False where the other is gone or takes too long.

        ``label`` tells steps apart, which both sides go through in the same order.
        """
        until = time.monotonic() + self._limit
        mine = f"{label} {self._side}"
        if self._side == 0 and self._read().endswith(_FREE):
            self._set(mine)
        while time.monotonic() < until:
            turn = self._read()
            if turn == mine:
                return True
            if turn.endswith(f" {self._side}") and not turn.endswith(_FREE):
                return False  # the other is at something that this side does not have
            if os.path.exists(self._path(f"gone-{1 - self._side}")):
                return False
            time.sleep(0.0005)
        return False

    def give(self, label: str, following: str) -> None:
        """Let the other go on: with this step, or with the first one's next."""
        self._set(f"{label} 1" if self._side == 0 else f"{following} 0")

    def leave(self) -> None:
        """No more turns on this side."""
        with contextlib.suppress(OSError), open(self._path(f"gone-{self._side}"), "w"):
            pass

    def _read(self) -> str:
        """Whose turn it is, and at what; `_FREE` before anything began."""
        try:
            with open(self._path("turn")) as file:
                return file.read()
        except OSError:
            return _FREE

    def _set(self, text: str) -> None:
        temporary = self._path(f"turn-{self._side}")
        with open(temporary, "w") as file:
            file.write(text)
        os.rename(temporary, self._path("turn"))


def warm_up(compile_: Callable[..., Any], options: dict[str, Any]) -> None:
    """Have the compiler load what it needs: that is no cost of the region's."""
    with contextlib.suppress(Exception):
        compile_(_plain, **options)(torch.ones(2))
    torch._dynamo.reset()


def _plain(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def measure(
    key: str,
    compiled: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    turns: Turns,
    said: Callable[[Timed], None],
) -> None:
    """Compile by a first call, then time batches of calls, turn by turn.

    ``said`` gets seconds a call of each batch, in the order of the turns: the other side's batch of
    the same number ran right before or after it.  Where the other side is gone, nothing is said.
    """
    steps = [f"{key} {name}" for name in ("compile", "warm", *map(str, range(BATCHES)), "end")]
    begun = time.monotonic()
    first = 0.0
    calls = 1
    times: list[float] = []
    for step, following in itertools.pairwise(steps):
        if not turns.take(step):
            return
        started = _now()
        if step == steps[0]:
            compiled(*args, **kwargs)
            first = _now() - started
        elif step == steps[1]:
            for _ in range(_WARM):
                compiled(*args, **kwargs)
            each = (_now() - started) / _WARM
            calls = int(min(max(_BATCH_SECONDS / max(each, 1e-9), 1), _MOST_CALLS))
        elif time.monotonic() - begun < first + _REGION_SECONDS or len(times) < 3:
            started = _now()
            for _ in range(calls):
                compiled(*args, **kwargs)
            times.append((_now() - started) / calls)
        turns.give(step, following)
    said(Timed(key, max(first - _median(times), 0.0), tuple(times)))


def _now() -> float:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0

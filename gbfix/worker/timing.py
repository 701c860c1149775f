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


class Turns:
    """A baton for two processes: a file that names the one whose turn it is.

    ``at-0`` and ``at-1`` hold the key that each side is at; ``gone-0`` and ``gone-1`` say that a
    side takes no more turns.  Both sides go through the keys that they share in the same order;
    side 0 may have more of them.
    """

    def __init__(self, folder: str, side: int, limit: float) -> None:
        self._folder = folder
        self._side = side
        self._limit = limit

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def meet(self, key: str) -> bool:
        """Wait for the other to come to this key; False where it does not.

        The first side passes over a key when the other already waits at another one; the second
        waits for the first until that is gone.
        """
        self._write(f"at-{self._side}", key)
        until = time.monotonic() + self._limit
        while time.monotonic() < until:
            other = self._read(f"at-{1 - self._side}")
            if other == key:
                return True
            if self._other_is_gone() or (other and self._side == 0):
                return False
            time.sleep(0.0005)
        return False

    def part(self, key: str) -> None:
        """Leave a key; the first side waits until the other has left it, too."""
        until = time.monotonic() + self._limit
        self._write(f"at-{self._side}", "")
        while self._side == 0 and time.monotonic() < until and not self._other_is_gone():
            if self._read("at-1") != key:
                return
            time.sleep(0.0005)

    def take(self, key: str, step: str) -> bool:
        """Wait for the turn; False where the other is gone, at another key or takes too long.

        Both sides go through the same steps of a key in the same order.
        """
        until = time.monotonic() + self._limit
        mine = f"{key} {step} {self._side}"
        while time.monotonic() < until:
            # In this order: the other gives its turn away before it leaves the key.
            left = self._other_is_gone() or self._read(f"at-{1 - self._side}") != key
            if self._read("turn") == mine:
                return True
            if left:
                return False
            time.sleep(0.0005)
        return False

    def give(self, key: str, step: str, following: str) -> None:
        """Let the other go on: with this step, or with the first one's next."""
        self._write("turn", f"{key} {step} 1" if self._side == 0 else f"{key} {following} 0")

    def begin(self, key: str, step: str) -> None:
        """Put the baton down where the first side takes it up."""
        if self._side == 0:
            self._write("turn", f"{key} {step} 0")

    def leave(self) -> None:
        """No more turns on this side."""
        with contextlib.suppress(OSError), open(self._path(f"gone-{self._side}"), "w"):
            pass

    def _other_is_gone(self) -> bool:
        return os.path.exists(self._path(f"gone-{1 - self._side}"))

    def _read(self, name: str) -> str:
        try:
            with open(self._path(name)) as file:
                return file.read()
        except OSError:
            return ""

    def _write(self, name: str, text: str) -> None:
        """In one step, so that the other never reads half of it."""
        temporary = self._path(f"new-{self._side}")
        with open(temporary, "w") as file:
            file.write(text)
        os.replace(temporary, self._path(name))


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
    try:
        timed = _steps(key, lambda: compiled(*args, **kwargs), turns) if turns.meet(key) else None
    finally:
        turns.part(key)
    if timed is not None:
        said(timed)


def _steps(key: str, call: Callable[[], Any], turns: Turns) -> Timed | None:
    steps = ["compile", "warm", *map(str, range(BATCHES)), "end"]
    begun = time.monotonic()
    first = 0.0
    calls = 1
    times: list[float] = []
    turns.begin(key, steps[0])
    for step, following in itertools.pairwise(steps):
        if not turns.take(key, step):
            return None
        started = _now()
        if step == "compile":
            call()
            first = _now() - started
        elif step == "warm":
            for _ in range(_WARM):
                call()
            each = (_now() - started) / _WARM
            calls = int(min(max(_BATCH_SECONDS / max(each, 1e-9), 1), _MOST_CALLS))
        elif time.monotonic() - begun < first + _REGION_SECONDS or len(times) < 3:
            started = _now()
            for _ in range(calls):
                call()
            times.append((_now() - started) / calls)
        turns.give(key, step, following)
    return Timed(key, max(first - _median(times), 0.0), tuple(times))


def _now() -> float:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0

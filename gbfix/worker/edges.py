"""Finds inputs at the edges of what a program decides: on either side of them it goes another way.

A threshold that a rewrite moved a little shows in no inputs that lie far from it.  Between a
recorded call and a variation on which the original runs other code, its own text says where the
edge is: the original is run with its steps noted, and the way from one to the other is halved.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from gbfix.worker.perturb import VALUES, Variation, toward
from gbfix.worker.shots import Camera, time_limit
from gbfix.worker.values import Project
from gbfix.worker.zygote import die_with_parent

#: Where to walk to from the recorded call, and how far each time before paths are compared.  What
#: is drawn comes first: near zero, on the way to negated values, all results are small.
_WALKS = {
    "redrawn": (0.0, 0.5, 1.0),
    "redrawn-2": (0.0, 0.5, 1.0),
    "negated": (0.0, 0.25, 0.5, 0.75, 1.0),
    "scaled": (0.0, 0.003, 0.03, 1.0),
}
#: How near to an edge, as a share of the recorded values.  What a rewrite adds up in another order
#: rounds otherwise, and that is no fault of it: so near it does not matter yet.
_NEAR = 2.0**-10
#: Edges of one walk, and all together: each is two more comparisons for every rewrite.
_EACH, _ALL = 2, 4

#: Seconds that the search may take to end after its time is over.
_GRACE = 1.0

#: Runs a variation and says which way it went; None where the variation means nothing.
Way = Callable[[Variation], "int | None"]


def find(camera: Camera, target: Any, project: Project, seconds: float) -> list[Variation]:
    """Variations close to the edges of what the original decides, found in a process of its own.

    What the calls leave behind in the program's own state is nobody's then.
    """
    end, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        found: list[Variation] = []
        try:
            os.close(end)
            die_with_parent()
            with time_limit(seconds):
                search(lambda one: way(camera, target, project, one), found)
        except BaseException:
            pass  # too slow, or the program's own doing: what was found by then is told
        finally:
            try:
                os.write(ours, json.dumps([item.label for item in found]).encode())
            finally:
                os._exit(0)
    os.close(ours)
    # No end is waited for: what stays in a library does not hear the alarm, and processes that the
    # program started may hold the pipe open.
    ready = select.select([end], [], [], seconds + _GRACE)[0]
    labels = os.read(end, 1 << 16) if ready else b""
    os.close(end)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return [toward(label) for label in json.loads(labels or b"[]")]


def search(go: Way, found: list[Variation]) -> None:
    """Add the variations on either side of each edge, two by two."""
    start = go(VALUES[0])
    crossed: set[tuple[int | None, int | None]] = set()
    for name, shares in _WALKS.items():
        ways = [(0.0, start)]
        ways += [(share, go(toward(f"edge {name} {share!r}"))) for share in shares[1:]]
        here = 0
        for (low, before), (high, after) in itertools.pairwise(ways):
            if None in (before, after) or before == after or here == _EACH:
                continue
            low, high, after = _halve(go, name, low, before, high, after)
            if (before, after) in crossed:
                continue
            crossed |= {(before, after), (after, before)}
            here += 1
            found += [toward(f"edge {name} {share!r}") for share in (low, high) if share]
            if len(found) >= 2 * _ALL:
                return


def _halve(
    go: Way, name: str, low: float, before: int | None, high: float, after: int | None
) -> tuple[float, float, int | None]:
    """The shares on either side of the first edge after ``low``, and the way beyond it."""
    near = _NEAR / 1000 if name == "scaled" else _NEAR
    while high - low > near:
        middle = (low + high) / 2
        there = go(toward(f"edge {name} {middle!r}"))
        if there == before:
            low = middle
        else:
            high, after = middle, there
    return low, high, after


def way(camera: Camera, target: Any, project: Project, variation: Variation) -> int | None:
    """Which way the call goes on these inputs: a number for the steps of the project's code."""
    steps = _Steps(project)

    def invoke(*args: Any, **kwargs: Any) -> Any:
        before = sys.gettrace()
        sys.settrace(steps.enter)
        try:
            with _Answers(steps):
                return target(*args, **kwargs)
        finally:
            sys.settrace(before)

    went, error = camera.walk(invoke, variation)
    if not went:
        return None
    steps.note(type(error).__name__)
    return steps.sign


class _Steps:
    """A number for the sequence of instructions that the project's functions run."""

    def __init__(self, project: Project) -> None:
        self._owns = project.owns
        self.sign = 0

    def note(self, what: object) -> None:
        self.sign = hash((self.sign, what))

    def enter(self, frame: types.FrameType, event: str, argument: object) -> Any:
        if not self._owns(frame.f_code.co_filename):
            return None
        # Both sides of a ternary stand on one line.
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: types.FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            self.note((frame.f_code.co_firstlineno, frame.f_lasti))
        return self._step


class _Answers(torch.overrides.TorchFunctionMode):
    """Notes what tensors answer with yes or no: ``sorted`` and ``max`` ask where no code shows."""

    def __init__(self, steps: _Steps) -> None:
        super().__init__()
        self._steps = steps

    def __torch_function__(
        self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, bool):
            self._steps.note(result)
        return result

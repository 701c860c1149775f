"""All patches under the real launcher, once: two ranks with the program as it is, two with patches.

Breaks are found and patches proved in a world of one rank.  Whether they hold where ranks talk to
each other is asked here: the exit status of each rank, what it prints, and its graph breaks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gbfix import logs
from gbfix.launchers import RANKS
from gbfix.schema import Rung, Target
from gbfix.worker import fileguard, rank
from gbfix.worker.protocol import Spec

#: Seconds that one start of the launcher may take on a quiet machine, at most: programs that train
#: for long are compared as far as they came.
PATIENCE = 120.0
_SEED = 20250728
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")
_WIDTH = 120


@dataclasses.dataclass(frozen=True)
class Rank:
    """How one rank went: ``status`` is None where it was ended from outside."""

    number: int
    status: int | None
    lines: tuple[str, ...]
    error: str
    breaks: int


@dataclasses.dataclass(frozen=True)
class World:
    """One start of the launcher; ``stopped`` where it did not end in time."""

    ranks: tuple[Rank, ...]
    stopped: bool = False
    problem: str = ""


def confirm(target: Target, overlay: Mapping[str, bytes], timeout: float) -> Rung:
    """Whether the program with these texts goes under its launcher as it does without."""
    name = _name(target)
    before = _start(target, {}, timeout)
    problem = before.problem or _failure(before)
    if problem:
        text = f"{name} with {RANKS} processes: {problem}; seen as one rank only"
        return Rung("launcher", None, text)
    after = _start(target, overlay, timeout)
    different = after.problem or difference(before, after)
    if different and not after.problem:
        # Some programs print another thing each time, and compiled numbers are rounded elsewhere.
        again = _start(target, {}, timeout)
        plain = _start(target, {}, timeout, {"TORCHDYNAMO_DISABLE": "1"})
        different = difference(before, after, again, plain)
    if different:
        return Rung("launcher", False, f"{name} with {RANKS} processes: {different}")
    return Rung("launcher", True, f"{name} with {RANKS} processes: {_sums(before, after)}")


def _name(target: Target) -> str:
    module = target.launcher[1] if len(target.launcher) > 1 else ""
    return "accelerate launch" if module.startswith("accelerate") else "torchrun"


def _failure(world: World) -> str:
    """Why the program as it is says nothing."""
    for one in world.ranks:
        if one.status:
            why = f" ({one.error})" if one.error else ""
            return f"rank {one.number} ends with exit status {one.status} without a patch, too{why}"
    return ""


def _sums(before: World, after: World) -> str:
    pairs = zip(before.ranks, after.ranks, strict=True)
    breaks = ", ".join(f"rank {a.number} {a.breaks} -> {b.breaks}" for a, b in pairs)
    lines = sum(len(one.lines) for one in before.ranks)
    printed = f"{lines} printed line{'s' * (lines != 1)}"
    ended = all(one.status is not None for world in (before, after) for one in world.ranks)
    how = "same exit status and" if ended else "not run to its end; the same as far as it came:"
    return f"{how} {printed}; breaks: {breaks}"


# -- comparing -------------------------------------------------------------------------------------


def difference(
    before: World, after: World, again: World | None = None, plain: World | None = None
) -> str:
    """What is not as before in one rank, as words; empty where all is.

    ``again`` is a second start of the program as it is: what differs there says nothing.  Numbers
    may be as far from the first as those of an uncompiled start (``plain``) are, ten times.
    """
    for at, (one, other) in enumerate(zip(before.ranks, after.ranks, strict=True)):
        stopped = one.status is None or other.status is None
        if one.status != other.status and not stopped:
            why = f" ({other.error})" if other.error else ""
            return (
                f"rank {one.number} ends with exit status {other.status} where it was "
                f"{one.status}{why}"
            )
        if one.status is not None and other.status is None:
            return f"rank {one.number} does not end any more"
        if other.breaks > one.breaks and one.status is not None:
            return f"rank {one.number} has {other.breaks} graph breaks where it had {one.breaks}"
        second = again.ranks[at].lines if again is not None else one.lines
        uncompiled = plain.ranks[at].lines if plain is not None else one.lines
        found = _lines(one, other, second, uncompiled, stopped)
        if found:
            return found
    return ""


def _lines(
    one: Rank, other: Rank, again: Sequence[str], plain: Sequence[str], stopped: bool
) -> str:
    varies = len(again) != len(one.lines)
    if len(one.lines) != len(other.lines) and not stopped and not varies:
        return f"rank {one.number} prints {len(other.lines)} lines where it was {len(one.lines)}"
    for at, (was, now) in enumerate(zip(one.lines, other.lines, strict=False)):
        second = again[at] if at < len(again) else ""
        if not _close(was, second, was):
            continue
        uncompiled = plain[at] if at < len(plain) else was
        if not _close(was, now, uncompiled):
            return (
                f"rank {one.number} prints `{now.strip()[:_WIDTH]}` where it was "
                f"`{was.strip()[:_WIDTH]}`"
            )
    return ""


def _close(was: str, now: str, plain: str) -> bool:
    """Whether two lines agree: words exactly, numbers with a point up to their last digit."""
    if was == now:
        return True
    if _NUMBER.split(was) != _NUMBER.split(now):
        return False
    first, second = _NUMBER.findall(was), _NUMBER.findall(now)
    third = _NUMBER.findall(plain) if _NUMBER.split(plain) == _NUMBER.split(was) else first
    return all(
        abs(float(a) - float(b))
        <= max(_digit(a), _digit(b), 2e-6 * abs(float(a)), 10 * abs(float(a) - float(c)))
        for a, b, c in zip(first, second, third, strict=True)
    )


def _digit(number: str) -> float:
    """What a number's last printed digit is worth, and a little more."""
    body, _, power = number.lower().partition("e")
    places = len(body.partition(".")[2])
    return 1.01 * 10.0 ** (int(power or 0) - places)


# -- starting --------------------------------------------------------------------------------------


def _start(
    target: Target,
    overlay: Mapping[str, bytes],
    timeout: float,
    settings: Mapping[str, str] | None = None,
) -> World:
    folder = tempfile.mkdtemp(prefix="gbfix-ranks-")
    guard = os.path.join(folder, "files")
    try:
        spec = os.path.join(folder, "spec")
        with open(spec, "wb") as file:
            pickle.dump(Spec(target, dict(overlay), folder, guard, _SEED), file)
        command = [sys.executable, *target.launcher, "gbfix.worker.rank"]
        environment = {**os.environ, **(settings or {}), "GBFIX_RANK": spec}
        environment |= {name: v for name, v in target.environment if name.startswith("ACCELERATE_")}
        environment["OMP_NUM_THREADS"] = environment.get("OMP_NUM_THREADS", "1")
        said = Path(folder, "launcher")
        with said.open("wb") as log:
            process = subprocess.Popen(
                command, cwd=target.cwd or None, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            stopped = False
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                stopped = True
            finally:
                _end(process, folder)
        ranks = tuple(_rank(number, folder) for number in range(RANKS))
        if not any(Path(folder, f"rank_{number}").exists() for number in range(RANKS)):
            return World(ranks, stopped, _last(said) or "the launcher started no process")
        if not all(Path(folder, f"rank_{number}").exists() for number in range(RANKS)):
            return World(ranks, stopped, "the launcher started one process only")
        return World(ranks, stopped)
    finally:
        fileguard.restore(guard)
        shutil.rmtree(folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    """End the launcher and every rank that still runs (each leads a session of its own)."""
    running = process.poll() is None
    if running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for place in Path(folder).glob(f"rank_*/{rank.PID}"):
            with contextlib.suppress(ValueError, ProcessLookupError, PermissionError):
                os.killpg(int(place.read_text()), signal.SIGKILL)


def _rank(number: int, folder: str) -> Rank:
    place = Path(folder, f"rank_{number}")
    status = None
    with contextlib.suppress(OSError, ValueError):
        status = int((place / rank.STATUS).read_text())
    lines: tuple[str, ...] = ()
    with contextlib.suppress(OSError):
        lines = tuple((place / rank.OUT).read_text("utf-8", "replace").splitlines())
    breaks = 0
    with contextlib.suppress(logs.LogError):
        breaks = len(logs.from_trace(place / rank.TRACE).breaks)
    return Rank(number, status, lines, _last(place / rank.ERR), breaks)


def _last(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:_WIDTH] for line in reversed(lines) if line.strip()), "")

"""The golden run: records what the original program does, and says clearly why it could not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from gbfix import endings, ladder
from gbfix.errors import Stop
from gbfix.schema import ErrorReport, GraphBreak, Region, each_once
from gbfix.worker.protocol import CallsMade, Failed, Finished, Outcome, RegionCalled, RegionSeen


@dataclasses.dataclass
class Recording:
    """What two runs of the original told: recorded eagerly, and compiled as the user does."""

    regions: dict[str, Region]
    #: Of each region, which of its calls were recorded.
    calls: dict[str, tuple[int, ...]]
    files: tuple[str, ...]
    ended_by_itself: bool
    stop_after: int
    stdout: bytes
    first_breaks: dict[str, tuple[GraphBreak, ...]]
    user_breaks: dict[str, tuple[GraphBreak, ...]]
    graphs: dict[str, int]
    errors: list[ErrorReport]
    #: Calls of regions that raise without torch.compile, in a program that goes on.
    raising: frozenset[tuple[str, int]]

    def breaks(self, key: str) -> tuple[GraphBreak, ...]:
        """All breaks of a region, each once: what ``fullgraph=True`` refuses comes first."""
        return merged(self.first_breaks.get(key, ()), self.user_breaks.get(key, ()))


def merged(*groups: Sequence[GraphBreak]) -> tuple[GraphBreak, ...]:
    """Breaks of several runs, each once.

    Where a library breaks in a frame of its own, the run with graph breaks no longer knows who
    called it: that is the break which another run reported at the call.
    """
    found = each_once(*groups)
    placed = {_innermost(item) for item in found.values() if item.site is not None}
    return tuple(
        item for item in found.values() if item.site is not None or _innermost(item) not in placed
    )


def _innermost(found: GraphBreak) -> tuple[str, str, int]:
    frame = found.frames[-1] if found.frames else None
    return (found.code, frame.path if frame else "", frame.line if frame else 0)


def read(golden: Outcome, user: Outcome, timeout: float) -> Recording:
    """Sum up the two runs; raises `Stop` where the program gave nothing to work on."""
    errors: list[ErrorReport] = []
    calls: dict[str, tuple[int, ...]] = {}
    for called in golden.of(RegionCalled):
        calls[called.key] = (*calls.get(called.key, ()), called.index)
    _check_end(golden, bool(calls), timeout, errors)
    made = {event.key: event.count for event in golden.of(CallsMade)}
    regions = {
        seen.key: Region(
            name=seen.name,
            path=seen.path,
            line=seen.line,
            compile_path=seen.compile_path,
            compile_line=seen.compile_line,
            bound=seen.bound,
            options=seen.options,
            calls=len(calls.get(seen.key, ())),
            calls_made=made.get(seen.key),
        )
        for seen in golden.of(RegionSeen)
    }
    if not calls:
        ended = endings.without_a_call(golden, regions)
        if ended is not None:
            raise Stop(ended)
    raising = _region_errors(golden, regions, errors)
    raising |= {(event.key, event.index) for event in ladder.user_traces(user) if event.raised}
    # What ends in an exception of the program's own is never one graph: its breaks tell nothing,
    # next to those of calls that come to an end.
    aside = frozenset((k, i) for k, i in raising if k in regions and regions[k].status != "error")
    golden, user = golden.without_traces(aside), user.without_traces(aside)
    for key, region in regions.items():
        if not calls.get(key):
            region.status = "error"
            region.note = "never called"
            errors.append(endings.never_called(region, golden))
    finished = golden.of(Finished)
    by_itself = bool(finished) and not finished[-1].stopped
    files: Mapping[str, None] = dict.fromkeys(
        [path for event in finished for path in event.files]
        + [item.path for item in regions.values() if _is_own(item.path)]
    )
    return Recording(
        regions,
        calls,
        tuple(files),
        by_itself,
        0 if by_itself else sum(map(len, calls.values())),
        golden.stdout,
        ladder.first_breaks(golden),
        ladder.all_breaks(user),
        ladder.region_graphs(user),
        errors,
        raising,
    )


def _check_end(golden: Outcome, called: bool, timeout: float, errors: list[ErrorReport]) -> None:
    """How the program ended; fatal unless its regions had been called before."""
    failures = [event for event in golden.of(Failed) if not event.key]
    if failures:
        raise Stop(_program_error(failures[0]))
    for event in golden.of(Failed):
        if event.kind in ("crash", "fork", "timeout"):
            region = event.key.rpartition("::")[2]
            message = f"{region}: {event.message}"
            errors.append(ErrorReport(event.kind, message, traceback=event.traceback, fatal=False))
    if golden.ended == "ok" or golden.ended == "stopped":
        return
    last = next((event.key for event in reversed(golden.of(RegionSeen))), "")
    where = f" (the last region it compiled is {last.rpartition('::')[2]})" if last else ""
    if golden.ended == "timeout":
        text = f"the program did not end within {timeout:g} s{where}; raise --timeout"
    elif golden.ended == "crash":
        hint = "; this may be memory" if golden.detail == "SIGKILL" else ""
        text = f"the program crashed with {golden.detail}{where}{hint}; run it with plain python"
    elif golden.ended == "exit":
        text = (
            f"the program left through os._exit({golden.detail}){where}; "
            "let it end by itself so that it can be recorded"
        )
    elif golden.ended == "output":
        text = f"the program was stopped: {golden.detail}; make it print less"
    else:
        text = f"the worker failed: {golden.ended} {golden.detail.strip().splitlines()[-1:]}"
    fatal = not (called and golden.ended in ("timeout", "exit"))
    error = ErrorReport(golden.ended, text, fatal=fatal)
    if fatal:
        raise Stop(error)
    errors.append(error)


def _program_error(event: Failed) -> ErrorReport:
    if event.kind == "target":
        return ErrorReport("target", event.message, event.path, event.line)
    if event.kind == "memory":
        text = f"the program ran out of memory ({event.message}); raise --memory-limit"
    elif "EOFError" in event.message:
        text = (
            "the program reads standard input, which gbfix leaves empty (it runs the program "
            f"several times); give it arguments or a file instead: {event.message}"
        )
    else:
        text = f"fails without torch.compile too: {event.message}"
    return ErrorReport(event.kind, text, event.path, event.line, event.traceback)


def _is_own(path: str) -> bool:
    """Whether a region's file may be the user's: `torch.nn.Sequential` is in an installed package.

    What of packages may be patched was said in the run, by name.
    """
    installed = {"site-packages", "dist-packages"}
    return path.endswith(".py") and installed.isdisjoint(Path(path).parts)


def _region_errors(
    golden: Outcome, regions: Mapping[str, Region], errors: list[ErrorReport]
) -> frozenset[tuple[str, int]]:
    """Calls whose own code raises in eager, in a program that catches it and goes on.

    A region is only given up where all its calls do.
    """
    raising: dict[str, dict[int, Failed]] = {}
    for event in golden.of(Failed):
        if event.kind == "region-error" and event.key in regions:
            raising.setdefault(event.key, {})[event.index] = event
    for key, failures in raising.items():
        region, event = regions[key], next(iter(failures.values()))
        name = key.rpartition("::")[2]
        if len(failures) < region.calls:
            share = f"{len(failures)} of {region.calls} calls"
            each = "raises" if len(failures) == 1 else "raise"
            region.note = f"{share} {each} without torch.compile too"
            continue
        region.status = "error"
        region.note = "raises without torch.compile too"
        errors.append(
            ErrorReport(
                "eager-error",
                f"{name} fails without torch.compile too: {event.message}",
                event.path,
                event.line,
                event.traceback,
                fatal=False,
            )
        )
    return frozenset((key, index) for key, failures in raising.items() for index in failures)

"""Graph breaks of a job that ran elsewhere, out of what torch wrote about it.

Two sources hold the same text for each break: the lines of ``TORCH_LOGS=graph_breaks``, marked
``[__graph_breaks]``, and the artifacts ``dynamo_graph_break_reason`` in the files of
``TORCH_TRACE=DIR``.  The format is torch 2.13's (``torch/_dynamo/symbolic_convert.py``); nothing is
run, so that there are breaks but no fixes.
"""

from __future__ import annotations

import dataclasses
import linecache
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gbfix import GbfixError, packages, registry
from gbfix.schema import BreakReport, ErrorReport, Frame, GraphBreak, Report

_LOGGED = re.compile(
    r"^(?P<who>.*?)[VDIWEC]\d{4} \S+ (?P<pid>\d+) .*?\[__graph_breaks\] ?(?P<text>.*)$"
)
_HEAD = re.compile(r"^Graph break (?:\(.*?\) )?in user code at (?P<path>.+):(?P<line>\d+)$")
_URL = re.compile(r"/gb/gb(\d{4})\.html")
_FRAME = re.compile(r'^  File "(?P<path>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<")


_RANK = re.compile(r"rank[_ ]?(\d+)")
#: A line of torch's structured log: a record as JSON follows the place.
_TRACED = re.compile(r"^[VDIWEC]\d{4} \S+ \d+ \S+\] \{")
_TRACED_RANK = re.compile(r'^[VDIWEC]\d{4} .*?"rank": (\d+)')


class LogError(GbfixError):
    """A file or folder that holds nothing of the kind, in one line."""


def from_log(path: Path) -> Report:
    """The breaks in a log that was written under ``TORCH_LOGS=graph_breaks``."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from error
    # Several processes may write to one log, each in the middle of another's lines.
    texts: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        found = _LOGGED.match(line)
        if found is not None:
            texts.setdefault((found["who"], found["pid"]), []).append(found["text"])
    if not texts:
        raise LogError(
            f"{path}: no graph breaks in this log; run the job with TORCH_LOGS=graph_breaks, "
            "which also says so where there are none"
        )
    writers = [
        _Writer(rank=_rank(who), breaks=tuple(_blocks(lines))) for (who, _), lines in texts.items()
    ]
    # Who broke nothing wrote nothing.
    return _report(str(path), writers, "ranks that broke")


@dataclasses.dataclass(frozen=True)
class _Writer:
    """A process that logged, and what; its rank where it says so."""

    rank: int | None
    breaks: tuple[GraphBreak, ...]


def _rank(text: str) -> int | None:
    found = _RANK.search(text)
    return int(found[1]) if found is not None else None


def from_trace(folder: Path) -> Report:
    """The breaks in a folder that was written under ``TORCH_TRACE``, by however many ranks.

    Files may lie in folders of their own (one a rank, a host or an attempt).
    """
    files = sorted(folder.rglob("*.log")) if folder.is_dir() else [folder]
    writers = [_traced(path, folder) for path in files]
    if not writers:
        raise LogError(f"{folder}: no files of TORCH_TRACE in this folder")
    known = [one for one in writers if one is not None]
    if not known:
        raise LogError(
            f"{folder}: nothing of what TORCH_TRACE writes; name the folder that it named"
        )
    return _report(str(folder), known)


def _traced(path: Path, folder: Path) -> _Writer | None:
    """What one file of a trace holds; None where it is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from error
    # A rank knows its number only once its process group is there.
    rank = _rank(str(path.relative_to(folder))) if path != folder else _rank(path.name)
    blocks: list[list[str]] = []
    payload: list[str] | None = None
    is_trace = False
    for line in text.split("\n"):
        if line.startswith("\t"):
            if payload is not None:
                payload.append(line[1:])
            continue
        payload = None
        found = _TRACED_RANK.match(line)
        rank = int(found[1]) if found is not None and rank is None else rank
        is_trace = is_trace or bool(_TRACED.match(line))
        if '"name": "dynamo_graph_break_reason"' in line:
            payload = []
            blocks.append(payload)
    if not is_trace and text:
        return None
    return _Writer(rank, tuple(item for lines in blocks for item in _blocks(lines)))


def _report(name: str, writers: Sequence[_Writer], ranks: str = "ranks") -> Report:
    """The breaks, each once, with the ranks that logged them where there were several."""
    from gbfix import __version__

    known = registry.Registry.load()
    found = [item for one in writers for item in one.breaks]
    # A break that was logged before is logged again without its stack.
    full = {(item.code, *item.key[1:3]) for item in found if item.frames[-1].function}
    found = [
        item
        for item in found
        if item.frames[-1].function or (item.code, *item.key[1:3]) not in full
    ]
    unique = {_same(item): item for item in found}
    world = {one.rank for one in writers if one.rank is not None}
    report = Report(name, registry.torch_version(), __version__)
    for same, item in unique.items():
        status = "unfixed" if item.site is not None else "outside"
        shown = BreakReport(item, status, url=known.url(item.code))
        by = [one for one in writers if same in map(_same, one.breaks)]
        shown.ranks = tuple(sorted({one.rank for one in by if one.rank is not None}))
        if len(world) > 1 and shown.ranks:
            numbers = ", ".join(map(str, shown.ranks))
            text = f"Logged by {len(shown.ranks)} of {len(world)} {ranks} ({numbers})."
            shown.facts = (text,)
        elif len(writers) > 1 and not world:
            shown.facts = (f"Logged by {len(by)} of {len(writers)} processes.",)
        report.breaks.append(shown)
    packages.mention(report)
    if not found:
        text = "no graph breaks were logged"
        report.errors.append(ErrorReport("no-breaks", text, name, fatal=False))
    return report


def _same(item: GraphBreak) -> tuple[object, ...]:
    return item.key if item.site else (item.code, item.message)


def _blocks(lines: list[str]) -> Iterator[GraphBreak]:
    """One break for each head line and what follows it."""
    starts = [number for number, line in enumerate(lines) if _HEAD.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield _break(lines[start:end])


def _break(lines: list[str]) -> GraphBreak:
    head = _HEAD.match(lines[0])
    assert head is not None
    text = "\n".join(lines[1:])
    reason, _, traceback = text.partition("User code traceback:\n")
    reason = reason.partition("Stack variable source attribution:")[0]
    reason = reason.removeprefix("Graph Break Reason: ")
    while reason.partition("\n\n")[0].endswith(":"):
        # "Encountered graph break when attempting to trace CALL ...:", and then what it was.
        reason = reason.partition("\n\n")[2].lstrip("\n")
    title = reason.partition("\n")[0].strip()
    frames = tuple(_frames(traceback)) or (_frame(head["path"], int(head["line"]), "", "", ""),)
    site = next((frame for frame in reversed(frames) if frame.in_project), None)
    url = _URL.search(reason)
    code = f"GB{url.group(1)}" if url else registry.Registry.load().code_for(title)
    return GraphBreak(
        code or registry.family_for("Unsupported", reason),
        title,
        " ".join(_section(reason, "Explanation").split()),
        " ".join(_section(reason, "Developer debug context").split()),
        tuple(re.findall(r"^  Hint: (.*)$", reason, re.MULTILINE)),
        frames,
        "",
        site,
        message=reason.strip(),
    )


def _section(reason: str, name: str) -> str:
    found = re.search(
        rf"^  {name}: (.*?)(?=^  (?:Hint|Developer debug context): |^ For more details|\Z)",
        reason,
        re.MULTILINE | re.DOTALL,
    )
    return found.group(1) if found else ""


def _frames(traceback: str) -> Iterator[Frame]:
    lines = traceback.split("\n")
    for number, line in enumerate(lines):
        found = _FRAME.match(line)
        if found is None:
            continue
        code, carets = ([*lines[number + 1 : number + 3], "", ""])[:2]
        yield _frame(found["path"], int(found["line"]), found["function"], code, carets)


def _frame(path: str, line: int, function: str, code: str, carets: str) -> Frame:
    """Columns are known where the file is here and still has this very line."""
    in_project = not _LIBRARY.search(path)
    here = linecache.getline(path, line).rstrip("\n") if os.path.isabs(path) else ""
    known = bool(code.strip()) and here.strip() == code.strip()
    if not known:
        return Frame(path, line, function, text=code.strip(), in_project=in_project)
    indent = len(here) - len(here.lstrip())
    start, end = indent, len(here.rstrip())
    if carets.strip() and not carets.strip("^~ "):
        # Tracebacks show the line without its own indentation, four columns in.
        start = indent + len(carets) - len(carets.lstrip()) - 4
        end = indent + len(carets.rstrip()) - 4
    return Frame(path, line, function, start, line, end, here, in_project)

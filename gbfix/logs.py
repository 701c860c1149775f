"""Graph breaks of a job that ran elsewhere, out of what torch wrote about it.

Two sources hold the same text for each break: the lines of ``TORCH_LOGS=graph_breaks``, marked
``[__graph_breaks]``, and the artifacts ``dynamo_graph_break_reason`` in the files of
``TORCH_TRACE=DIR``.  The format is torch 2.13's (``torch/_dynamo/symbolic_convert.py``); nothing is
run, so that there are breaks but no fixes.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator
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
    logged = [(item, who) for (who, _), lines in texts.items() for item in _blocks(lines)]
    return _report(str(path), logged)


def from_trace(folder: Path) -> Report:
    """The breaks in a folder that was written under ``TORCH_TRACE``."""
    files = sorted(folder.glob("*.log")) if folder.is_dir() else [folder]
    blocks: list[tuple[str, list[str]]] = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise LogError(f"{path}: cannot be read: {error.strerror}") from error
        payload: list[str] | None = None
        for line in text.split("\n"):
            if line.startswith("\t"):
                if payload is not None:
                    payload.append(line[1:])
                continue
            payload = None
            if '"name": "dynamo_graph_break_reason"' in line:
                payload = []
                blocks.append((path.name, payload))
    if not files:
        raise LogError(f"{folder}: no files of TORCH_TRACE in this folder")
    found = [(item, name) for name, lines in blocks for item in _blocks(lines)]
    return _report(str(folder), found)


def _report(name: str, logged: list[tuple[GraphBreak, str]]) -> Report:
    """The breaks, each once, with the ranks that logged them where there were several."""
    from gbfix import __version__

    known = registry.Registry.load()
    found = [item for item, _ in logged]
    # A break that was logged before is logged again without its stack.
    full = {(item.code, *item.key[1:3]) for item in found if item.frames[-1].function}
    found = [
        item
        for item in found
        if item.frames[-1].function or (item.code, *item.key[1:3]) not in full
    ]
    unique = {_same(item): item for item in found}
    ranks: dict[tuple[object, ...], set[int]] = {}
    for item, who in logged:
        rank = _RANK.search(who)
        if rank is not None:
            ranks.setdefault(_same(item), set()).add(int(rank[1]))
    world = sorted(set().union(*ranks.values()))
    report = Report(name, registry.torch_version(), __version__)
    for item in unique.values():
        status = "unfixed" if item.site is not None else "outside"
        shown = BreakReport(item, status, url=known.url(item.code))
        on = sorted(ranks.get(_same(item), ()))
        if len(world) > 1 and on:
            numbers = ", ".join(map(str, on))
            shown.advice = (f"Logged by {len(on)} of {len(world)} ranks that broke ({numbers}).",)
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

"""The report as one page of HTML: no network, no script, light and dark, made for the keyboard.

What is shown is worked out here as plain records; `report.html.jinja` only lays it out.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from gbfix import payoff
from gbfix.patch import display_path
from gbfix.report import plain
from gbfix.report.summary import Mode, closing_line, next_steps
from gbfix.schema import BreakReport, Frame, Patch, Region, Report, Rung, Safety, Step, Verdict
from gbfix.source import SourceError, SourceFile

_AROUND = 3  # lines of source on both sides of a break
_MOST_GAPS = 18  # gaps of a strip that are drawn
_CROWDED = 6  # with more gaps than this, a gap is named by its number alone
_MOST_ROWS = 400  # rows of one patch


@dataclasses.dataclass(frozen=True)
class Piece:
    """A graph or a gap of a strip; a gap names its cause and leads to it.

    ``grow`` is a graph's share of the width: its operators, and one, as no graph is invisible.
    """

    kind: str
    label: str = ""
    title: str = ""
    anchor: str = ""
    status: str = ""
    grow: int = 1


@dataclasses.dataclass(frozen=True)
class Strip:
    """A region as the compiler sees it, from left to right."""

    pieces: tuple[Piece, ...]
    words: str
    crowded: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a patch side by side; numbers count from 1, None stands for nothing there."""

    left: int | None
    before: str
    right: int | None
    after: str
    kind: str


@dataclasses.dataclass(frozen=True)
class SideBySide:
    """What a rewrite changes in one file."""

    path: str
    rows: tuple[Row, ...]
    cut: int = 0


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A rewrite with all that was measured about it."""

    title: str
    codemod: str
    safety: str
    files: tuple[SideBySide, ...]
    rungs: tuple[tuple[str, str, str, str], ...]
    reasons: tuple[str, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Break:
    """One break as a reader meets it."""

    anchor: str
    number: int
    code: str
    title: str
    where: str
    function: str
    status: str
    why: str
    source: tuple[tuple[int, str, bool], ...]
    evidence: Evidence | None
    tried: tuple[tuple[str, str, str, str], ...]
    facts: tuple[str, ...]
    advice: tuple[str, ...]
    url: str


@dataclasses.dataclass(frozen=True)
class Bar:
    """A time with its middle half, in per cent of the longest."""

    name: str
    words: str
    width: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Section:
    """One region with its breaks."""

    anchor: str
    name: str
    where: str
    status: str
    note: str
    breaks_before: int
    breaks_after: int
    graphs: str
    operators: str
    before: Strip
    after: Strip
    breaks: tuple[Break, ...]
    bars: tuple[Bar, ...]
    payoff: str


def render(report: Report, cwd: Path, mode: Mode = Mode.DIFF) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gbfix.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("report.html.jinja").render(**page(report, cwd, mode)) + "\n"


def page(report: Report, cwd: Path, mode: Mode = Mode.DIFF) -> dict[str, Any]:
    """What the template lays out."""
    sections = _sections(report, cwd)
    fixed = sum(found.status == "fixed" for found in report.breaks)
    split = sum(found.split for found in report.breaks if found.status == "fixed")
    left = len(report.breaks) - fixed
    fixed -= split
    whole = [s for s in sections if s.status in ("clean", "fixed")]
    return {
        "target": report.target,
        "versions": f"gbfix {report.gbfix_version}, torch {report.torch_version}",
        "headline": _headline(len(report.breaks), fixed, len(sections), len(whole), mode),
        "closing": closing_line(report, mode),
        # Every other piece of a reason is code.
        "steps": [(command, why.split("`")) for command, why in next_steps(report, mode)],
        "numbers": (
            (str(len(report.breaks)), "graph breaks found"),
            (str(fixed), "would be fixed" if mode is Mode.DIFF else "fixed"),
            *(((str(split), "only split"),) if split else ()),
            (str(left), "left"),
            (f"{len(whole)} of {len(sections)}", "regions are one graph"),
        ),
        "sections": sections,
        "outside": _loose(report, cwd, sections),
        "unsafe": [_of_patch(patch, cwd) for patch in report.unsafe_patches],
        "files": [_of_patch(patch, cwd) for patch in report.patches] if not report.steps else [],
        "errors": [
            (error.kind, error.message, _place(error.path, error.line, cwd), error.fatal)
            for error in report.errors
        ],
    }  # fmt: skip


def _headline(total: int, fixed: int, regions: int, whole: int, mode: Mode) -> str:
    found = plain.count(total, "graph break")
    if not total:
        return f"No graph breaks in {plain.count(regions, 'region')}."
    if mode is Mode.CHECK:
        return f"{found} in {plain.count(regions, 'region')}."
    done = "can be fixed" if mode is Mode.DIFF else "fixed"
    if fixed == total:
        return f"{'The' if total == 1 else 'All'} {found} {done}."
    if not fixed:
        return f"{found} found, none of which {done} safely."
    return f"{fixed} of {found} {done}; {whole} of {regions} regions are one graph then."


# -- regions ---------------------------------------------------------------------------------------


def _sections(report: Report, cwd: Path) -> list[Section]:
    texts = {patch.path: patch.before for patch in report.patches}
    numbers = {id(found): number for number, found in enumerate(report.breaks, 1)}
    sections = []
    for index, region in enumerate(report.regions, 1):
        mine = [found for found in report.breaks if found.is_in(region)]
        left = [found for found in mine if found.status != "fixed"]
        sections.append(
            Section(
                f"region-{index}",
                region.name,
                _place(region.path, region.line, cwd),
                region.status,
                region.note,
                region.breaks_before,
                region.breaks_after,
                plain.change(region.graphs_before, region.graphs_after),
                _captured(region),
                _strip(region.graphs_before, region.sizes_before, mine, numbers),
                _strip(region.graphs_after, region.sizes_after, left, numbers),
                tuple(
                    _break(found, numbers[id(found)], report, texts, cwd)
                    for found in sorted(mine, key=lambda item: item.status == "fixed")
                ),
                _bars(region),
                _payoff(region),
            )
        )
    return sorted(sections, key=lambda item: (not item.breaks_after, not item.breaks_before))


def _captured(region: Region) -> str:
    """What of the region is compiled: operators in its graphs, frames that run as Python."""
    words = []
    if region.operators_before is not None:
        words.append(f"{plain.change(region.operators_before, region.operators_after)} operators")
    if region.fallbacks_before or region.fallbacks_after:
        number = plain.change(region.fallbacks_before, region.fallbacks_after)
        words.append(f"{number} frames run uncompiled")
    return ", ".join(words)


def _loose(report: Report, cwd: Path, sections: Sequence[Section]) -> list[Break]:
    """Breaks of no region that is listed (a log names none)."""
    texts = {patch.path: patch.before for patch in report.patches}
    shown = {item.number for section in sections for item in section.breaks}
    return [
        _break(found, number, report, texts, cwd)
        for number, found in enumerate(report.breaks, 1)
        if number not in shown
    ]


def _strip(
    graphs: int | None,
    sizes: Sequence[int] | None,
    breaks: Sequence[BreakReport],
    numbers: Mapping[int, int],
) -> Strip:
    """Graphs and gaps in turns: a region begins with a graph, and each break ends one."""
    count = len(breaks) + 1 if graphs is None else graphs
    shown, more = breaks[:_MOST_GAPS], len(breaks) - _MOST_GAPS
    crowded = len(shown) > _CROWDED
    drawn = _graphs(min(count, len(shown) + 1 + _MOST_GAPS), sizes, crowded)
    pieces: list[Piece] = [*itertools.islice(drawn, 1)]
    for found in shown:
        number = numbers[id(found)]
        cause = found.graph_break
        line = cause.site.line if cause.site else 0
        title = f"{cause.code} {cause.gb_type}" + (f", line {line}" if line else "")
        label = str(number) if crowded else cause.code
        pieces.append(Piece("gap", label, title, f"break-{number}", found.status))
        pieces += itertools.islice(drawn, 1)
    if more > 0:
        pieces.append(Piece("more", f"+{more}", f"{more} more breaks"))
    pieces += drawn
    words = plain.count(count, "graph")
    if breaks:
        words += f", {plain.count(len(breaks), 'break')}"
    return Strip(tuple(pieces), words, crowded)


def _graphs(count: int, sizes: Sequence[int] | None, crowded: bool) -> Iterator[Piece]:
    """The graphs of a strip, as wide as they have operators; alike where nobody counted those."""
    known = sizes is not None and len(sizes) >= count
    total = sum(sizes) if sizes is not None and known else 0
    for number in range(count):
        if sizes is None or not known:
            yield Piece("graph", title="a graph")
            continue
        size = sizes[number]
        # A number needs room: in a narrow piece it would be cut.
        label = str(size) if not crowded and 12 * size >= total else ""
        title = f"graph {number + 1}: {plain.count(size, 'operator')}"
        yield Piece("graph", label, title, grow=size + 1)


def _bars(region: Region) -> tuple[Bar, ...]:
    if region.payoff is None:
        return ()
    timings = (("before", region.payoff.before), ("after", region.payoff.after))
    longest = max(max(timing.latency, timing.spread[1]) for _, timing in timings) or 1.0
    return tuple(
        Bar(
            name,
            f"{_seconds(timing.latency)} (middle half {_seconds(timing.spread[0])} to "
            f"{_seconds(timing.spread[1])}), compiles in {_seconds(timing.compile_seconds)}",
            100 * timing.latency / longest,
            100 * timing.spread[0] / longest,
            100 * timing.spread[1] / longest,
        )
        for name, timing in timings
    )


def _payoff(region: Region) -> str:
    if region.payoff is None:
        return ""
    low, high = region.payoff.spread
    slower = "Slower: " if payoff.is_slower(region.payoff) else ""
    return (
        f"{slower}{region.payoff.speedup:.2f} times as fast (middle half {low:.2f} to {high:.2f})"
    )


def _seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


# -- breaks ----------------------------------------------------------------------------------------


def _break(
    found: BreakReport, number: int, report: Report, texts: Mapping[str, str], cwd: Path
) -> Break:
    cause = found.graph_break
    frame = cause.site or (cause.frames[-1] if cause.frames else None)
    tried = tuple(
        (
            attempt.codemod,
            attempt.title,
            "passed" if attempt.passed else "rejected",
            plain.difference(" ".join(attempt.reason.split())),
        )
        for attempt in found.attempts
    )
    return Break(
        f"break-{number}",
        number,
        cause.code,
        cause.gb_type,
        _place(frame.path, frame.line, cwd) if frame else "no source position",
        frame.function if frame else "",
        found.status,
        plain.why(cause.explanation or cause.message),
        _source(frame, texts) if frame else (),
        _of_step(found, report, texts, cwd),
        tried,
        found.facts,
        found.advice or cause.hints,
        found.url,
    )


def _of_step(
    found: BreakReport, report: Report, texts: Mapping[str, str], cwd: Path
) -> Evidence | None:
    """The rewrite that removed a break, next to the text that it was made from."""
    if found.step is None or not 0 <= found.step < len(report.steps):
        return None
    step = report.steps[found.step]
    before = dict(texts)
    for earlier in report.steps[: found.step]:
        before.update(earlier.edits)
    files = tuple(
        _side_by_side(display_path(path, cwd), before[path], text)
        for path, text in step.edits.items()
        if before.get(path, text) != text
    )
    return _evidence(step.title, step.codemod, step.safety, files, step.verdict, step)


def _of_patch(patch: Patch, cwd: Path) -> Evidence:
    files = (_side_by_side(display_path(patch.path, cwd), patch.before, patch.after),)
    title = patch.change
    return _evidence(title, ", ".join(patch.codemods), patch.safety, files, patch.verdict, patch)


def _evidence(
    title: str,
    codemod: str,
    safety: Safety,
    files: tuple[SideBySide, ...],
    verdict: Verdict,
    holder: Step | Patch,
) -> Evidence:
    limits = (*getattr(verdict, "limits", ()), *getattr(holder, "limits", ()))
    return Evidence(
        title,
        codemod,
        str(safety),
        files,
        tuple(_rung(rung) for rung in verdict.rungs),
        tuple(plain.difference(text) for text in dict.fromkeys(verdict.caveats)),
        tuple(dict.fromkeys(limits)),
        holder.notes,
    )


def _rung(rung: Rung) -> tuple[str, str, str, str]:
    word = {True: "passed", False: "failed", None: "not run"}[rung.passed]
    return word, rung.name, plain.rung(rung.name), plain.difference(rung.detail)


def _source(frame: Frame, texts: Mapping[str, str]) -> tuple[tuple[int, str, bool], ...]:
    text = texts.get(frame.path)
    if text is None:
        try:
            text = SourceFile.read(frame.path).text
        except SourceError:
            return ((frame.line, frame.text, True),) if frame.text else ()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    last = frame.end_line or frame.line
    first = max(frame.line - _AROUND, 1)
    return tuple(
        (number, lines[number - 1].expandtabs(4), frame.line <= number <= last)
        for number in range(first, min(last + _AROUND, len(lines)) + 1)
    )


def _side_by_side(path: str, before: str, after: str) -> SideBySide:
    old, new = before.split("\n"), after.split("\n")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    rows: list[Row] = []
    for group in matcher.get_grouped_opcodes(_AROUND):
        if rows:
            rows.append(Row(None, "", None, "", "skip"))
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                rows += [
                    Row(i + k + 1, old[i + k], j + k + 1, new[j + k], "equal")
                    for k in range(i_end - i)
                ]
                continue
            for k in range(max(i_end - i, j_end - j)):
                left, right = i + k < i_end, j + k < j_end
                rows.append(
                    Row(
                        i + k + 1 if left else None,
                        old[i + k] if left else "",
                        j + k + 1 if right else None,
                        new[j + k] if right else "",
                        "both" if left and right else "gone" if left else "new",
                    )
                )
    return SideBySide(path, tuple(rows[:_MOST_ROWS]), max(len(rows) - _MOST_ROWS, 0))


def _place(path: str, line: int, cwd: Path) -> str:
    if not path:
        return ""
    return display_path(path, cwd) + (f":{line}" if line else "")

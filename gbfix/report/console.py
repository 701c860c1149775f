"""The report for people: breaks with their source, diffs with what was measured, a summary.

Colours only where the stream is a terminal and ``NO_COLOR`` is not set; long lines are left to the
terminal, so that nothing is cut and everything can be copied.  In ``--diff`` mode the diffs alone
go to ``out``, all else to ``err``: ``gbfix --diff x.py | git apply`` works.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from gbfix import payoff
from gbfix.report import plain
from gbfix.report.summary import Mode, closing_line, next_steps
from gbfix.schema import BreakReport, ErrorReport, Frame, Patch, Region, Report, Rung, Safety
from gbfix.source import SourceError, SourceFile

_WHY = 240  # characters of an explanation that are shown without -v
_OFTEN = 3  # so many breaks that tell the same story are shown as one without -v
_MOST_PLACES = 6

#: What gbfix does in the phases of `gbfix.clock`.
_PHASES = {
    "start": "starting",
    "golden": "recording the program",
    "facts": "looking at breaks",
    "propose": "writing patches",
    "candidates": "trying patches",
    "branches": "forcing conditions",
    "constants": "changing constants",
}
_STATUS_STYLES = {
    "clean": "green",
    "fixed": "green",
    "partial": "yellow",
    "split": "yellow",
    "unfixed": "red",
    "outside": "yellow",
    "error": "bold red",
}


class ConsoleReport:
    """Prints a report, piece by piece or as a whole.

    ``raw_diff`` gives the bytes of a patch as they must be for ``git apply`` (the file's own
    encoding); they are used where the diffs' stream is no terminal.
    """

    def __init__(
        self,
        mode: Mode,
        *,
        out: TextIO,
        err: TextIO,
        raw_diff: Callable[[Patch], bytes],
        cwd: str | Path | None = None,
        verbose: int = 0,
        quiet: bool = False,
        timings: bool = False,
    ) -> None:
        self._mode = mode
        self._timings = timings
        self._raw_diff = raw_diff
        self._cwd = Path(cwd) if cwd is not None else Path.cwd()
        self._verbose = verbose
        self._quiet = quiet
        self._out = out
        self._diffs = _console(out)
        self._err = _console(err)
        self._text = self._err if mode is Mode.DIFF else self._diffs
        self._advised: set[str] = set()  # a code's general advice is worth reading once

    def show(self, report: Report, patches: bool = True) -> None:
        """Everything but the closing lines of `finish`: errors, breaks, patches."""
        for error in report.errors:
            self.error(error)
        if self._quiet:
            if patches and self._mode is Mode.DIFF:
                for patch in report.patches:
                    self.diff(patch)
            return
        before = {patch.path: patch.before for patch in report.patches}
        unsafe = report.unsafe_patches
        for group in self._grouped(report.breaks):
            self.graph_break(group[0], before, group[1:])
        if patches:
            for patch in report.patches:
                self.patch(patch)
        for patch in unsafe:
            self._unsafe_hint(patch)

    def finish(self, report: Report, written: tuple[str, ...] = ()) -> None:
        """The table of regions, what was written, and the one line that sums up."""
        if self._quiet:
            return
        if report.regions:
            self._line(self._text, Text(""))
            self._text.print(self._table(report))
        for region in report.regions:
            if region.payoff is not None:
                style = "yellow" if payoff.is_slower(region.payoff) else ""
                text = _printable(payoff.sentence(region.name, region.payoff))
                self._prose(text, style)
        if report.targets:
            self._line(self._text, Text(""))
            self._text.print(self._targets(report))
        for path in written:
            self._line(self._text, Text.assemble(("wrote ", "green"), self._relative(path)))
        closing = closing_line(report, self._mode)
        if closing:
            style = "bold" if report.breaks else "bold green"
            self._prose(closing, style)
        self._steps(next_steps(report, self._mode))
        if self._timings and report.timings:
            longest = sorted(report.timings.items(), key=lambda item: -item[1])
            text = ", ".join(
                f"{_PHASES.get(name, name)} {seconds:.1f} s" for name, seconds in longest
            )
            self._line(self._text, Text(f"Time: {text}"))

    def _steps(self, steps: Sequence[tuple[str, str]]) -> None:
        """Commands to copy, each with what it is good for: beside it where there is room."""
        width = max((len(command) for command, _ in steps), default=0)
        beside = all(width + len(why) + 8 <= min(self._text.width, 100) for _, why in steps)
        for number, (command, why) in enumerate(steps):
            head = "Next: " if number == 0 else "      "
            space = f"{'':{width - len(command)}}  " if beside else "\n        "
            self._line(self._text, Text.assemble(head, (command, "cyan"), f"{space}{why}"))

    def error(self, error: ErrorReport) -> None:
        """One clear line on stderr, after the user's own traceback where there is one."""
        if error.traceback:
            self._line(self._err, Text(_printable(error.traceback.rstrip("\n")), "dim"))
        word, style = ("error", "bold red") if error.fatal else ("warning", "bold yellow")
        where = self._relative(error.path) + (f":{error.line}" if error.line else "")
        text = _printable(error.message)
        if error.path and not text.startswith((error.path, where)):
            text = f"{where}: {text}"
        self._line(self._err, Text.assemble((f"{word}: ", style), text))

    def _grouped(self, breaks: Sequence[BreakReport]) -> list[list[BreakReport]]:
        """Breaks of which one is as good as all: the same place, or the same story told often."""
        if self._verbose:
            return [[found] for found in breaks]
        places: dict[tuple[object, ...], list[BreakReport]] = {}
        for found in breaks:
            places.setdefault((found.graph_break.key, found.status, found.codemod), []).append(
                found
            )
        stories: dict[tuple[object, ...], list[list[BreakReport]]] = {}
        for group in places.values():
            stories.setdefault(_story(group[0]), []).append(group)
        result = []
        for groups in stories.values():
            if len(groups) < _OFTEN:
                result += groups
            else:
                result.append([found for group in groups for found in group])
        order = {id(found): number for number, found in enumerate(breaks)}
        return sorted(result, key=lambda group: order[id(group[0])])

    def graph_break(
        self,
        found: BreakReport,
        before: Mapping[str, str],
        others: Sequence[BreakReport] = (),
    ) -> None:
        """One break: where, what, the source with carets, what was tried, what to do.

        ``others`` are breaks that it stands for: they are named, and no more.
        """
        cause = found.graph_break
        frame = cause.site or (cause.frames[-1] if cause.frames else None)
        head = Text.assemble(
            (self._place(frame) if frame else "(no source position)", "bold"),
            " ",
            (cause.code, "bold red"),
            " ",
            _printable(cause.gb_type),
        )
        status = found.status
        if self._mode is not Mode.CHECK or status == "outside":
            word = "fixable" if status == "fixed" and self._mode is Mode.DIFF else status
            head.append(f" [{word}]", _STATUS_STYLES.get(status, ""))
        self._line(self._text, Text(""))
        self._line(self._text, head)
        if frame is not None:
            self._excerpt(frame, before)
        self._others(found, others)
        why = _one_line(cause.explanation) or _one_line(cause.message)
        if not self._verbose:
            why = plain.why(why)
        self._field("why", why if self._verbose else textwrap.shorten(why, _WHY))
        regions = dict.fromkeys(
            self._relative(item.graph_break.region) for item in (found, *others)
        )
        regions.pop("", None)
        if len(regions) == 1:
            self._field("in", f"compiled region {next(iter(regions))}")
        elif regions:
            self._field("in", f"{len(regions)} compiled regions: {_listed(list(regions))}")
        for text in found.facts:
            self._field("note", text)
        if found.codemod:
            self._field("fix", found.codemod, "green")
        self._tried(found)
        if found.status != "fixed":
            self._what_to_do(found)

    def _tried(self, found: BreakReport) -> None:
        """The rewrites that were tried; without ``-v`` only what failed, where nothing worked."""
        for attempt in found.attempts:
            if not self._verbose and (attempt.passed or found.status == "fixed"):
                continue
            reason = _one_line(attempt.reason)
            if not self._verbose:
                reason = textwrap.shorten(plain.difference(reason), _WHY, placeholder=" [...]")
            result = "passed" if attempt.passed else f"rejected: {reason}"
            self._field("tried", f"{attempt.codemod} ({attempt.title}): {result}")

    def _what_to_do(self, found: BreakReport) -> None:
        """Advice for a break that stays, and where there is more."""
        cause = found.graph_break
        for text in found.advice:
            if text not in self._advised:
                self._field("advice", text)
        self._advised.update(found.advice)
        if not found.advice:
            for hint in cause.hints:
                self._field("torch's hint", hint)
        more = f"gbfix explain {cause.code}"
        self._field("more", f"{more}  {found.url}" if found.url else more)

    def _others(self, found: BreakReport, others: Sequence[BreakReport]) -> None:
        """Where else the same happens."""
        here = found.graph_break.key
        places = dict.fromkeys(
            self._place(item.graph_break.site)
            for item in others
            if item.graph_break.site is not None and item.graph_break.key != here
        )
        if places:
            self._field("also at", _listed(list(places)))

    def patch(self, patch: Patch) -> None:
        """The diff, and under it what was measured about it."""
        self._line(self._text, Text(""))
        titles = patch.change
        head = Text.assemble((self._relative(patch.path), "bold"), ": ", _printable(titles))
        style = "green" if patch.safety is Safety.SAFE else "bold yellow"
        head.append(f" [{patch.safety}]", style)
        self._line(self._text, head)
        self.diff(patch)
        self._verdict(patch)

    def diff(self, patch: Patch) -> None:
        """The unified diff alone, on ``out``."""
        if self._diffs.is_terminal:
            lexed = Syntax("", "diff", theme="ansi_dark").highlight(_printable(patch.diff))
            lexed.rstrip()
            self._line(self._diffs, lexed)
            return
        self._out.flush()
        buffer = getattr(self._out, "buffer", None)
        if self._mode is Mode.DIFF and buffer is not None:
            buffer.write(self._raw_diff(patch))
            buffer.flush()
        else:
            self._out.write(patch.diff)

    def _verdict(self, patch: Patch) -> None:
        for rung in patch.verdict.rungs:
            self._rung(rung)
        measured = []
        if patch.verdict.branches:
            measured.append("{} of {} branches run".format(*patch.verdict.branches))
        if patch.verdict.perturbed:
            measured.append(f"{patch.verdict.perturbed} further inputs compared")
        if measured:
            self._field("measured", ", ".join(measured))
        for note in patch.notes:
            self._field("note", note)
        limits = patch.verdict.limits
        shown = limits if self._verbose else limits[:_OFTEN]
        for text in shown:
            self._field("limit", text)
        if len(shown) < len(limits):
            self._field("limit", f"and {len(limits) - len(shown)} more (-v shows them)")

    def _rung(self, rung: Rung) -> None:
        word = {True: "passed", False: "FAILED", None: "not run"}[rung.passed]
        style = {True: "green", False: "bold red", None: "dim"}[rung.passed]
        detail = f"  {_one_line(rung.detail)}" if rung.detail else ""
        self._line(
            self._text, Text.assemble("  ", (f"{word:8}", style), f" {rung.name}", (detail, "dim"))
        )
        for caveat in rung.caveats:
            self._field("unsafe", caveat, "yellow")

    def _unsafe_hint(self, patch: Patch) -> None:
        """An unsafe patch in a line or two: what it would do, and why it is not done by itself."""
        titles = patch.change
        # Where nothing measured speaks against it, its notes say why it is unsafe by nature.
        reasons = tuple(dict.fromkeys(patch.verdict.caveats)) or patch.notes
        self._line(self._text, Text(""))
        head = Text.assemble(
            (self._relative(patch.path), "bold"), ": ", _printable(titles), " ",
            ("[unsafe, not shown]", "yellow"),
        )  # fmt: skip
        self._line(self._text, head)
        if not self._verbose:
            if reasons:
                more = f" (and {plain.count(len(reasons) - 1, 'more reason')})"
                first = textwrap.shorten(plain.difference(reasons[0]), _WHY, placeholder=" [...]")
                self._field("because", first + (more if len(reasons) > 1 else ""))
            return
        for reason in reasons:
            self._field("because", plain.difference(reason))
        for note in patch.notes if reasons is not patch.notes else ():
            self._field("note", note)

    def _table(self, report: Report) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("region", overflow="fold")
        table.add_column("defined at", overflow="fold")
        table.add_column("status")
        table.add_column("breaks", justify="right", no_wrap=True)
        table.add_column("graphs", justify="right", no_wrap=True)
        for region in report.regions:
            status = Text(region.status, _STATUS_STYLES.get(region.status, ""))
            table.add_row(
                Text(_printable(region.name)),
                Text(self._region_place(region)),
                status,
                self._change(region.breaks_before, region.breaks_after),
                self._change(region.graphs_before, region.graphs_after),
            )
            if region.note:
                table.add_row(Text(""), Text(_printable(region.note), "dim"))
        return table

    def _targets(self, report: Report) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("target", overflow="fold")
        for name in ("regions", "breaks", "s"):
            table.add_column(name, justify="right", no_wrap=True)
        for item in report.targets:
            regions = Text("failed", "bold red") if item.failed else Text(str(item.regions))
            table.add_row(
                Text(_printable(item.target)),
                regions,
                self._change(item.breaks, item.breaks - item.fixed),
                f"{item.seconds:.1f}",
            )
        return table

    def _region_place(self, region: Region) -> str:
        if not region.path:
            return ""
        return self._relative(region.path) + (f":{region.line}" if region.line else "")

    def _change(self, before: int | None, after: int | None) -> str:
        if before is None:
            return "-"
        if self._mode is Mode.CHECK or after is None or after == before:
            return str(before)
        return f"{before} -> {after}"

    def _excerpt(self, frame: Frame, before: Mapping[str, str]) -> None:
        line = _source_line(frame, before)
        if not line.strip():
            return
        number = str(frame.line)
        gutter = " " * len(number)
        shown = _printable(line.expandtabs(8))
        self._line(self._text, Text.assemble((f"  {number} | ", "blue"), shown))
        if frame.column is None or frame.column > len(line):
            return
        end = len(line)
        if frame.end_column is not None and frame.end_line in (None, frame.line):
            end = min(frame.end_column, end)
        start = cell_len(_printable(line[: frame.column].expandtabs(8)))
        width = cell_len(_printable(line[:end].expandtabs(8))) - start
        carets = " " * start + "^" * max(width, 1)
        self._line(self._text, Text.assemble((f"  {gutter} | ", "blue"), (carets, "bold red")))

    def _place(self, frame: Frame) -> str:
        place = f"{self._relative(frame.path)}:{frame.line}"
        return place if frame.column is None else f"{place}:{frame.column + 1}"

    def _relative(self, path: str) -> str:
        if not os.path.isabs(path):
            return path
        try:
            return str(Path(path).relative_to(self._cwd))
        except ValueError:
            return path

    def _field(self, name: str, text: str, style: str = "") -> None:
        """A named line of prose, continued with indentation where it is long."""
        lines = textwrap.wrap(
            _one_line(text),
            max(min(self._text.width, 100) - len(name) - 4, 30),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for number, line in enumerate(lines):
            head = f"  {name}: " if number == 0 else " " * (len(name) + 4)
            self._line(self._text, Text.assemble((head, "cyan"), (line, style)))

    def _prose(self, text: str, style: str) -> None:
        """A sentence: one line in a pipe, and in a terminal as many as it takes."""
        lines = [text]
        if self._text.is_terminal:
            lines = textwrap.wrap(
                text, max(self._text.width, 40), subsequent_indent="  ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
        for line in lines:
            self._line(self._text, Text(line, style))

    def _line(self, console: Console, text: Text) -> None:
        console.print(text, soft_wrap=True, highlight=False)


def _story(found: BreakReport) -> tuple[object, ...]:
    """What is told about a break, apart from where it is."""
    cause = found.graph_break
    tried = tuple((item.codemod, item.passed, item.reason) for item in found.attempts)
    if found.status == "fixed":
        tried = ()
    told = (*found.facts, *found.advice)
    return (cause.code, cause.gb_type, found.status, found.codemod, told, tried)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_PLACES} more" if len(names) > _MOST_PLACES else ""
    return ", ".join(names[:_MOST_PLACES]) + more


def _console(stream: TextIO) -> Console:
    # A stream that is no terminal gets a fixed, generous width: only tables are laid out by it.
    width = None if stream.isatty() else 120
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def _source_line(frame: Frame, before: Mapping[str, str]) -> str:
    text = before.get(frame.path)
    if text is None:
        try:
            text = SourceFile.read(frame.path).text
        except SourceError:
            return frame.text.split("\n")[0]
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[frame.line - 1] if 0 < frame.line <= len(lines) else ""


def _printable(text: str) -> str:
    """Text that cannot move the cursor or change colours: control characters are spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def _one_line(text: str) -> str:
    return _printable(" ".join(text.split()))

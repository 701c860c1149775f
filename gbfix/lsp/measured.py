"""Reports of runs, and what they are still worth while their files are edited.

A report speaks of the texts that its run saw.  As the texts change, a break in a function that was
left alone moves with its lines; one in a function that was edited is *stale*.  A fix counts as
validated only while every file of the run is as it was.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import os
from collections.abc import Callable, Iterator, Mapping

from gbfix.lsp.syntax import parse
from gbfix.patch import ConflictError, merge, replacements
from gbfix.schema import BreakReport, Frame, Patch, Report, Safety, Step, Target
from gbfix.source import SourceError, SourceFile

#: The present text of a file: the editor's where it is open, else the disk's; None when gone.
Current = Callable[[str], str | None]


class State(enum.Enum):
    """What a run still says about a place."""

    EXACT = "every file of the run is as it was"
    MOVED = "something else was edited since"
    STALE = "the code in question was edited since"


@dataclasses.dataclass(frozen=True)
class Measured:
    """One report with the texts that its run saw, by path."""

    target: Target
    report: Report
    texts: Mapping[str, str]

    @classmethod
    def of(cls, target: Target, report: Report, started_ns: int | None = None) -> Measured:
        """Take up a fresh report; a file that was written since ``started_ns`` counts as edited."""
        texts: dict[str, str] = {}
        frames = [item.graph_break.site for item in report.breaks]
        paths = {
            *report.files,
            *(region.path for region in report.regions),
            *(frame.path for frame in frames if frame is not None),
        }
        for path in paths:
            try:
                if started_ns is not None and os.stat(path).st_mtime_ns > started_ns:
                    continue
                texts[path] = SourceFile.read(path).text
            except (OSError, SourceError):
                continue
        texts.update((patch.path, patch.before) for patch in report.patches)
        return cls(target, report, texts)

    def speaks_of(self, path: str) -> bool:
        return path in self.texts

    def unchanged(self, current: Current) -> bool:
        """Whether every file that the report rests on has the text that the run saw."""
        paths = {*self.report.files, *self.texts}
        return all(path in self.texts and current(path) == self.texts[path] for path in paths)

    def state(self, path: str, line: int, current: Current) -> State:
        """What the report is worth for a line (of the text that the run saw)."""
        before, now = self.texts.get(path), current(path)
        if before is None or now is None:
            return State.STALE
        if before != now:
            first, last = _block(before, line)
            for start, end, _ in _changes(before, now):
                # Lines that are put in just before or after the block leave it alone.
                if end > start:
                    touched = start < last and end > first - 1
                else:
                    touched = first - 1 < start < last
                if touched:
                    return State.STALE
            return State.MOVED
        return State.EXACT if self.unchanged(current) else State.MOVED

    def line_now(self, path: str, line: int, current: Current) -> int | None:
        """Where a line of the run's text stands now; None when it was edited."""
        before, now = self.texts.get(path), current(path)
        if before is None or now is None:
            return None
        shift = 0
        for start, end, text in _changes(before, now):
            if line - 1 < start:
                break
            if line - 1 < end:
                return None
            shift += text.count("\n") - (end - start)
        return line + shift

    def line_then(self, path: str, line: int, current: Current) -> int | None:
        """The line of the run's text that stands at a present line; None where that is new."""
        before, now = self.texts.get(path), current(path)
        if before is None or now is None:
            return None
        shift = 0
        for start, end, text in _changes(before, now):
            added = text.count("\n")
            if line - 1 < start + shift:
                break
            if line - 1 < start + shift + added:
                return None
            shift += added - (end - start)
        return line - shift

    # -- fixes -------------------------------------------------------------------------------

    def texts_after(self, step: int) -> dict[str, str]:
        """The texts with the first accepted rewrites, ``step`` (from 0) the last of them."""
        result: dict[str, str] = {}
        for item in self.report.steps[: step + 1]:
            result.update(item.edits)
        return result

    def applied(self, current: Current) -> int:
        """How many of the accepted rewrites stand in the files, which are else as they were."""
        paths = {*self.report.files, *self.texts}
        for step in reversed(range(len(self.report.steps))):
            wanted = {**self.texts, **self.texts_after(step)}
            if all(path in wanted and current(path) == wanted[path] for path in paths):
                return step + 1
        return 0

    def is_gone(self, found: BreakReport, applied: int) -> bool:
        """Whether a break was removed by what stands in the files."""
        return self.step_of(found) is not None and (found.step or 0) < applied

    def merged(self, after: Mapping[str, str], current: Current) -> dict[str, tuple[str, str]]:
        """The present and the new text of each file that a fix changes.

        Raises `ConflictError` where the fix meets what was edited since the run.
        """
        result: dict[str, tuple[str, str]] = {}
        for path, text in after.items():
            before, now = self.texts.get(path), current(path)
            if before is None or now is None:
                raise ConflictError(f"{path} is not what it was")
            new = text if now == before else merge(before, now, text)
            if new != now:
                result[path] = (now, new)
        return result

    def unsafe_for(self, found: BreakReport) -> Iterator[Patch]:
        """The unsafe patches that were tried for a break, in their order."""
        names = {(item.codemod, item.title) for item in found.attempts if item.passed}
        for patch in self.report.unsafe_patches:
            if any((codemod, patch.titles[0]) in names for codemod in patch.codemods):
                yield patch

    def step_of(self, found: BreakReport) -> Step | None:
        if found.status != "fixed" or found.step is None:
            return None
        return self.report.steps[found.step] if found.step < len(self.report.steps) else None

    @property
    def safe(self) -> bool:
        """Whether all accepted rewrites are safe (unsafe ones are accepted only when asked for)."""
        return all(step.safety is Safety.SAFE for step in self.report.steps)


def place_of(found: BreakReport) -> Frame | None:
    """Where a break is shown: its site, else the innermost frame in the project."""
    cause = found.graph_break
    if cause.site is not None:
        return cause.site
    return next((frame for frame in reversed(cause.frames) if frame.in_project), None)


class Results:
    """The last report of each target."""

    def __init__(self) -> None:
        self._found: dict[Target, Measured] = {}

    def add(self, measured: Measured) -> None:
        self._found.pop(measured.target, None)
        self._found[measured.target] = measured

    def get(self, target: Target) -> Measured | None:
        return self._found.get(target)

    def about(self, path: str) -> list[Measured]:
        """Reports that speak of a file, the newest first."""
        return [item for item in reversed(self._found.values()) if item.speaks_of(path)]

    def __iter__(self) -> Iterator[Measured]:
        return iter(list(self._found.values()))


@functools.lru_cache(maxsize=32)
def _changes(before: str, now: str) -> tuple[tuple[int, int, str], ...]:
    return tuple(replacements(before, now))


@functools.lru_cache(maxsize=8)
def _blocks(text: str) -> tuple[tuple[int, int], ...]:
    """First and last line of each outermost function, methods counting as such."""
    tree = parse(text)
    found: list[tuple[int, int]] = []
    stack: list[ast.AST] = list(tree.body) if tree else []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            found.append((first, node.end_lineno or node.lineno))
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try | ast.With):
            stack.extend(ast.iter_child_nodes(node))
    return tuple(found)


def _block(text: str, line: int) -> tuple[int, int]:
    """The lines of the function that holds a line; the line itself at module level."""
    return next(
        ((first, last) for first, last in _blocks(text) if first <= line <= last), (line, line)
    )

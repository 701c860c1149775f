"""One run of gbfix as the user sees it: recover, run the engine, show, ask, write.

Between the command line, which parses, and the engine, which knows nothing of terminals.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

from gbfix import arguments, engine, journal, patch
from gbfix.report import github, markdown, sarif
from gbfix.report import json as report_json
from gbfix.report.console import ConsoleReport
from gbfix.report.summary import Mode, exit_status
from gbfix.schema import Asked, BreakReport, ErrorReport, Options, Patch, Region, Report, Target
from gbfix.source import project_root
from gbfix.words import ArgumentError

__all__ = ["Mode", "run", "show"]


def run(
    targets: Sequence[Target],
    options: Options,
    mode: Mode,
    *,
    style: str = "text",
    quiet: bool = False,
    executor: str = "",
    save: Path | None = None,
    repro: Path | None = None,
    timings: bool = False,
    asked: Asked | None = None,
    cwd: Path,
) -> int:
    """Run the targets, show what came out, write what is to be written; the exit status."""
    folder = journal.state_folder(project_root(cwd))
    recovered = journal.recover(folder)
    if recovered is not None:
        print(f"note: {recovered.message}", file=sys.stderr)
    if save is not None:
        from gbfix import overlays

        overlays.check_folder(save)
    if repro is not None:
        from gbfix import repro as writer

        writer.check_folder(repro)
    with Progress(sys.stderr, quiet=quiet, verbose=options.verbose) as progress:
        report = _run(targets, options, executor, cwd, progress)
        report.include, report.callers = options.include, options.callers
        report.asked, report.held = asked, []
        reproduced = _reproduce(report, targets, options, repro, progress) if repro else []
    console = ConsoleReport(
        mode,
        out=sys.stdout if style == "text" else sys.stderr,
        err=sys.stderr,
        raw_diff=lambda shown: patch.diff_bytes(shown, cwd),
        cwd=cwd,
        verbose=options.verbose,
        quiet=quiet,
        timings=timings,
    )
    written: tuple[str, ...] = ()
    shown = 0
    if mode is Mode.INTERACTIVE:
        console.show(report, patches=False)
        shown = len(report.errors)
        _choose(report, console, _ask)
    for line in reproduced:
        print(f"note: {line}", file=sys.stderr)
    if save is not None and report.patches:
        overlays.save(report, targets, options, save)
        print(f"note: saved as an overlay in {save}", file=sys.stderr)
    if mode in (Mode.APPLY, Mode.INTERACTIVE):
        held = _held_back(report, options, saved=save is not None)
        written = _write(report, targets, folder, cwd)
        report.patches += held
    if style != "text":
        for error in report.errors[shown:]:
            if error.fatal:
                console.error(error)
        sys.stdout.write(_rendered(report, style, cwd, mode))
        return exit_status(report, mode)
    if mode is Mode.INTERACTIVE:
        for error in report.errors[shown:]:
            console.error(error)
    else:
        console.show(report)
    console.finish(report, written)
    return exit_status(report, mode)


def show(report: Report, *, style: str, quiet: bool, verbose: int, cwd: Path) -> int:
    """Show a report that no run made (of a log), as ``--check`` does; the exit status."""
    mode = Mode.CHECK
    if style == "text":
        console = ConsoleReport(
            mode, out=sys.stdout, err=sys.stderr, cwd=cwd, verbose=verbose, quiet=quiet,
            raw_diff=lambda shown: patch.diff_bytes(shown, cwd),
        )  # fmt: skip
        console.show(report)
        console.finish(report, ())
    else:
        sys.stdout.write(_rendered(report, style, cwd, mode))
    return exit_status(report, mode)


def _rendered(report: Report, style: str, cwd: Path, mode: Mode) -> str:
    if style == "html":
        # Imported here: the other formats need no templates.
        from gbfix.report import html

        return html.render(report, cwd, mode)
    if style == "sarif":
        return sarif.render(report, cwd)
    if style == "github":
        return github.render(report, cwd)
    if style == "markdown":
        return markdown.render(report, cwd)
    return report_json.render(report)


def _run(
    targets: Sequence[Target], options: Options, executor: str, cwd: Path, progress: Progress
) -> Report:
    if any(target.value.endswith(".ipynb") for target in targets):
        from gbfix import notebooks

        if len(targets) > 1 or executor or not notebooks.is_notebook(targets[0]):
            raise ArgumentError("a notebook goes alone, as `gbfix NOTEBOOK.ipynb`")
        return notebooks.run(targets[0], options, progress.show)
    if len(targets) == 1 and not executor:
        return engine.run(targets[0], options, progress.show)
    # Imported here: they load process pools, which one target does not need.
    from gbfix import executors, several

    with executors.connect(executor, options.jobs) as pool:
        return several.run(targets, options, pool, cwd, progress.show)


class Progress:
    """One updating line on a terminal; elsewhere a line for each step, with ``-v`` only.

    The seconds in it go on by themselves: a step may take minutes, and nobody is to think that
    nothing happens.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, verbose: int = 0) -> None:
        self._stream = stream
        self._active = stream.isatty() and not quiet
        self._logs = bool(verbose) and not self._active and not quiet
        self._started = time.monotonic()
        self._text = ""
        self._lock = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Progress:
        if self._active:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            self._paint()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._active:
            with self._lock:
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    def show(self, text: str) -> None:
        """Replace the line, cut to the terminal's width."""
        self._text = " ".join(text.split())
        if self._logs:
            print(f"{self._seconds():4d} s  {self._text}", file=self._stream, flush=True)
        if self._active:
            self._paint()

    def _paint(self) -> None:
        width = max(shutil.get_terminal_size().columns - 1, 10)
        with self._lock:
            if self._text and not self._over.is_set():
                line = f"{self._seconds()} s  {self._text}"[:width]
                self._stream.write(f"\r\x1b[K{line}")
                self._stream.flush()

    def _seconds(self) -> int:
        return int(time.monotonic() - self._started)


def _write(report: Report, targets: Sequence[Target], folder: Path, cwd: Path) -> tuple[str, ...]:
    files = [found for found in map(arguments.file_of, targets) if found is not None]
    roots = dict.fromkeys([project_root(cwd), *(project_root(found) for found in files)])
    try:
        return journal.apply(report.patches, folder, cwd=cwd, roots=tuple(roots))
    except journal.ApplyError as error:
        report.errors.append(ErrorReport("not-written", str(error)))
        for one in report.patches:
            _drop(report, one)
        return ()


def _reproduce(
    report: Report, targets: Sequence[Target], options: Options, folder: Path, progress: Progress
) -> list[str]:
    """Write scripts for what still breaks; a line on each."""
    from gbfix import notebooks
    from gbfix import repro as writer

    if len(targets) > 1 or notebooks.is_notebook(targets[0]):
        raise ArgumentError("--repro goes with one script, module or PATH::QUALNAME")
    written = writer.write(report, targets[0], options, folder, progress.show)
    lines = []
    for one in written:
        if one.path.endswith(".py"):
            lines.append(f"wrote {one.path}" + (f" ({one.problem})" if one.problem else ""))
        else:
            lines.append(f"no script {one.path}: {one.problem}")
    return lines


def _held_back(report: Report, options: Options, *, saved: bool) -> list[Patch]:
    """Take the patches of installed packages out of the report, which are not written there."""
    if not options.include:
        return []
    from gbfix import overlays

    report.patches[:], held = overlays.split(report.patches, options)
    if held and not saved:
        for one in held:
            _drop(report, one)
        report.held = held
        report.errors.append(
            ErrorReport(
                "not-written",
                f"{held[0].path}: belongs to an installed package, where gbfix does not write; "
                "--save DIR saves its patch as an overlay (see `gbfix run --help`)",
                fatal=False,
            )
        )
    return held if saved else []


def _choose(report: Report, console: ConsoleReport, ask: Callable[[str], str]) -> None:
    """Leave in the report the patches that the user takes: y(es), n(o), a(ll), q(uit)."""
    chosen: list[Patch] = []
    answer = ""
    for number, one in enumerate(report.patches, 1):
        if answer not in ("a", "q"):
            console.patch(one)
            answer = ask(f"write this patch ({number} of {len(report.patches)})? [y/n/a/q] ")
        if answer in ("y", "a"):
            chosen.append(one)
        else:
            _drop(report, one)
    if 0 < len(chosen) < len(report.patches):
        why = "the patches were validated together, not in this selection; run gbfix --check after"
        report.errors.append(ErrorReport("partial-choice", why, fatal=False))
    report.patches[:] = chosen


def _ask(question: str) -> str:
    while True:
        print(question, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1]
        if not line or answer in ("y", "n", "a", "q"):
            return answer or "q"


def _drop(report: Report, one: Patch) -> None:
    """A patch that is not written fixes nothing: say so of its breaks and of their regions."""
    lost = [
        found
        for found in report.breaks
        if found.status == "fixed" and one.path in _changes(found, report)
    ]
    for found in lost:
        found.status = "unfixed"
    for region in report.regions:
        if any(found.is_in(region) for found in lost):
            fixed = [it for it in report.breaks if it.is_in(region) and it.status == "fixed"]
            _without(region, len(fixed))


def _changes(found: BreakReport, report: Report) -> Collection[str]:
    """The files that the rewrite of a fixed break changes."""
    if found.step is not None and found.step < len(report.steps):
        return report.steps[found.step].edits
    site = found.graph_break.site
    return () if site is None else (site.path,)


def _without(region: Region, fixed: int) -> None:
    """What is known of a region with so many breaks fixed that had all patches when measured."""
    region.breaks_after = max(region.breaks_before - fixed, 0)
    region.status = "partial" if fixed else "unfixed"
    region.payoff = None
    for name in ("graphs", "recompiles", "sizes", "fallbacks"):
        # Between none of the patches and all of them, nobody counted.
        before = getattr(region, f"{name}_before")
        setattr(region, f"{name}_after", None if fixed else before)

"""The loop: record, trace, propose, validate, and again, until the regions are whole.

`run` takes a target and gives a `Report`; it writes nothing to the user's files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import packaging.version

import gbfix
from gbfix import cache, packages, registry
from gbfix.errors import Stop
from gbfix.schema import ErrorReport, Options, Report, Rung, Target, Verdict
from gbfix.source import ABSENT, SourceError, SourceFile, check_syntax

if TYPE_CHECKING:
    from gbfix.runner import Runner

MINIMUM_TORCH = "2.11"

Progress = Callable[[str], None]


def run(
    target: Target,
    options: Options,
    progress: Progress = lambda text: None,
    runner: Runner | None = None,
) -> Report:
    """Find the breaks of a target's regions, and patches for them.

    ``runner`` lets several runs share one fork server; without it the run starts its own.

    Never raises for anything that the user's program does: what kept gbfix from its work stands in
    ``report.errors``.
    """
    started = time.monotonic()
    version = registry.torch_version()
    report = Report(
        target.display,
        version,
        gbfix.__version__,
        include=options.include,
        callers=options.callers,
    )
    try:
        _check_torch(version)
        _check_target(target)
        if options.use_cache:
            known = cache.load(target, options, version)
            if known is not None:
                packages.mention(known, options.include)
                return known
        # Imported here: a cached answer needs neither LibCST nor a worker.
        from gbfix.loop import Loop

        Loop(target, options, report, progress, runner).run()
        packages.mention(report, options.include)
    except Stop as stop:
        report.errors.append(stop.error)
    except SourceError as error:
        report.errors.append(
            ErrorReport("source", str(error).partition(": ")[2], error.path, error.line)
        )
    report.seconds = time.monotonic() - started
    return report


def verify(
    target: Target,
    options: Options,
    edits: Mapping[str, str],
    runner: Runner | None = None,
) -> Verdict:
    """Whether the target does with other texts of its files what it does without.

    ``edits`` are whole texts by absolute path.  Never raises for what the program does.
    """
    from gbfix.loop import Loop

    version = registry.torch_version()
    report = Report(target.display, version, gbfix.__version__)
    try:
        _check_torch(version)
        _check_target(target)
        return Loop(target, options, report, lambda text: None, runner).verify(edits)
    except Stop as stop:
        problem = stop.error.message
    except SourceError as error:
        problem = str(error)
    return Verdict((Rung("program", False, problem),))


def check(target: Target, before: Mapping[str, bytes], after: Mapping[str, str]) -> None:
    """What can be said of two versions of a target before anything runs; raises `Stop`."""
    _check_torch(registry.torch_version())
    if target.kind == "module":
        return
    path = os.path.realpath(os.path.join(target.cwd, target.value.partition("::")[0]))
    if before.get(path) == ABSENT.encode():
        text = "the target is new: there is no older version of it to compare with"
        raise Stop(ErrorReport("new-target", text, path))
    if after.get(path) == ABSENT:
        raise Stop(ErrorReport("no-target", "the change deletes the target", path))
    if path not in before:
        _check_target(target)


def _check_torch(version: str) -> None:
    if not version:
        raise Stop(
            ErrorReport(
                "torch-missing",
                "torch is not installed in this environment; install it beside gbfix "
                f"(torch {MINIMUM_TORCH} or newer)",
            )
        )
    try:
        too_old = packaging.version.Version(version) < packaging.version.Version(MINIMUM_TORCH)
    except packaging.version.InvalidVersion:
        return
    if too_old:
        raise Stop(
            ErrorReport(
                "torch-too-old",
                f"torch {version} is installed, gbfix needs {MINIMUM_TORCH} or newer; "
                "upgrade torch",
            )
        )


def _check_target(target: Target) -> None:
    """What can be said before anything runs: the file is there, readable and valid Python."""
    if target.kind == "module":
        return
    path = target.value.partition("::")[0] if target.kind == "callable" else target.value
    full = os.path.join(target.cwd, path)
    source = SourceFile.read(full)
    check_syntax(source.text, path)

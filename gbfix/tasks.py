"""What one target costs, as functions that can be sent to another process or machine.

Each process keeps one fork server warm for all that it is given.
"""

from __future__ import annotations

import contextlib
import multiprocessing.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gbfix import engine
from gbfix.schema import Options, Report, Rung, Target, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from gbfix.changes import Change
    from gbfix.runner import Runner
    from gbfix.verification import Verification

_runner: Runner | None = None


def run(target: Target, options: Options) -> Report:
    """`gbfix.engine.run` with the process's own fork server."""
    return engine.run(target, options, runner=_warm())


def verify(target: Target, options: Options, edits: Mapping[str, str]) -> Verdict:
    """Whether a target does with these texts what it does without; nothing is proposed."""
    return engine.verify(target, options, edits, runner=_warm())


def judge(
    target: Target, options: Options, change: Change, save: Path | None = None
) -> Verification:
    """The verdict on a change, with the counterexample written where one was asked for."""
    from gbfix import counterexample, verify

    result = verify.verify(target, options, change, runner=_warm())
    if save is not None:
        counterexample.save(save, result, change, target, options.timeout)
    return result


def lost(error: object) -> Verdict:
    """The verdict of a verification that could not be made."""
    return Verdict((Rung("targets", False, f"{type(error).__name__}: {error}"),))


def _warm() -> Runner:
    global _runner
    from gbfix.runner import Runner

    if _runner is None or _runner.is_broken:
        _close()
        _runner = Runner()
        # A pool's process leaves through `os._exit`, past what `atexit` knows.
        multiprocessing.util.Finalize(None, _close, exitpriority=10)
    return _runner


def _close() -> None:
    global _runner
    runner, _runner = _runner, None
    if runner is not None:
        with contextlib.suppress(Exception):
            runner.close()

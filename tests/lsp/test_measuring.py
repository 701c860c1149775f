"""The conversation with the engine's process; the engine itself is a stand-in there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from gbfix.lsp.measuring import Cancelled, MeasureError, Measuring
from gbfix.schema import Options, Report, Target

#: Answers like the engine's process, without torch: "slow" waits, "crash" crashes.
PROCESS = """
import os, sys, time
from gbfix import engine, runner
from gbfix.lsp import engine_process
from gbfix.schema import Report

class Runner:
    directory = "/nowhere"
    def __enter__(self): return self
    def __exit__(self, *args): pass

def run(target, options, progress, runner):
    print("a codemod that prints")
    progress(target.value)
    if target.value == "slow":
        time.sleep(60)
    if target.value == "crash":
        os._exit(3)
    if target.value == "raise":
        raise ValueError("bad\\nluck")
    return Report(target.value)

runner.Runner, engine.run = Runner, run
engine_process.main()
"""


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    real = subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        assert command[1:] == ["-P", "-m", "gbfix.lsp.engine_process"]
        return real([sys.executable, "-c", PROCESS], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", popen)
    return Measuring()


async def ask(
    measuring: Measuring,
    name: str,
    cancel: asyncio.Event | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    event = cancel or asyncio.Event()
    return await measuring.run(Target("script", name), Options(), say, event)


def test_reports_and_progress_come_back_and_prints_do_no_harm(measuring: Measuring) -> None:
    async def session() -> None:
        said: list[str] = []
        for name in ("a", "b"):
            assert (await ask(measuring, name, say=said.append)).target == name
        assert said == ["a", "b"]
        assert measuring.warm
        measuring.close()
        assert not measuring.warm

    asyncio.run(session())


def test_a_cancelled_run_ends_and_the_process_serves_on(measuring: Measuring) -> None:
    async def session() -> None:
        cancel = asyncio.Event()
        with pytest.raises(Cancelled):
            await ask(measuring, "slow", cancel, lambda text: cancel.set())
        assert (await ask(measuring, "a")).target == "a"
        measuring.close()

    asyncio.run(session())


def test_a_waiter_that_is_cancelled_does_not_spoil_the_next_run(measuring: Measuring) -> None:
    async def session() -> None:
        begun = asyncio.Event()
        waiting = asyncio.ensure_future(ask(measuring, "slow", say=lambda text: begun.set()))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await ask(measuring, "a")).target == "a"
        measuring.close()

    asyncio.run(session())


@pytest.mark.parametrize(("name", "why"), [("crash", "ended unexpectedly"), ("raise", "bad luck")])
def test_a_process_that_fails_is_told_and_replaced(
    measuring: Measuring, name: str, why: str
) -> None:
    async def session() -> None:
        with pytest.raises(MeasureError, match=why):
            await ask(measuring, name)
        assert (await ask(measuring, "a")).target == "a"
        measuring.close()

    asyncio.run(session())


def test_an_idle_process_goes(measuring: Measuring) -> None:
    async def session() -> None:
        measuring.idle_seconds = 0.01
        await ask(measuring, "a")
        for _ in range(500):
            if not measuring.warm:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("still there")

    asyncio.run(session())

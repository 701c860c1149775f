"""A run that ends in good order when its time is spent, and says where it went."""

from __future__ import annotations

import concurrent.futures
import io
import time
from pathlib import Path

import pytest

from gbfix import engine
from gbfix.bench import Bench
from gbfix.report.console import ConsoleReport
from gbfix.report.summary import Mode
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Target

PROGRAM = """import torch


@torch.compile(backend="eager")
def twice(x):
    torch._dynamo.graph_break()
    y = x * 2
    print("twice")
    return y


twice(torch.ones(3))
"""


def run(folder: Path, runner: Runner, budget: float) -> Report:
    (folder / "program.py").write_text(PROGRAM)
    target = Target("script", "program.py", cwd=str(folder))
    return engine.run(target, Options(budget=budget), runner=runner)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GBFIX_CACHE_DIR", str(tmp_path / "cache"))


def test_what_was_not_tried_is_named_and_not_remembered(tmp_path: Path, runner: Runner) -> None:
    report = run(tmp_path, runner, 0.01)
    assert not report.patches and {item.status for item in report.breaks} == {"unfixed"}
    (error,) = report.errors
    assert error.kind == "budget" and not error.fatal
    assert f"{len(report.breaks)} breaks were not tried" in error.message
    assert all("--budget" in item.advice[-1] for item in report.breaks)
    assert not list((tmp_path / "cache").rglob("*.pickle"))


def test_without_a_budget_there_is_no_end(tmp_path: Path, runner: Runner) -> None:
    report = run(tmp_path, runner, 0)
    assert {item.status for item in report.breaks} == {"fixed"} and not report.errors
    assert list((tmp_path / "cache").rglob("*.pickle"))


@pytest.mark.parametrize("wanted", [True, False])
def test_timings(wanted: bool) -> None:
    out = io.StringIO()
    report = Report("a.py", timings={"start": 1.26, "inductor": 20.0})
    console = ConsoleReport(
        Mode.APPLY, out=out, err=out, raw_diff=lambda patch: b"", timings=wanted
    )
    console.finish(report)
    assert ("Time: inductor 20.0 s, starting 1.3 s" in out.getvalue()) is wanted


def test_a_trial_is_given_up_when_the_budget_is_spent(tmp_path: Path, runner: Runner) -> None:
    target = Target("script", "program.py", cwd=str(tmp_path))
    pool = concurrent.futures.ThreadPoolExecutor(1)
    bench = Bench(runner, pool, target, Options(timeout=500), str(tmp_path))
    bench.recording = 40.0
    tries, records = bench.job("candidate", {}), bench.job("golden", {})
    assert bench._patience(tries) > 100
    with bench.due(time.monotonic() + 30):
        assert 25 < bench._patience(tries) <= 30
        assert bench._patience(records) == 500  # what is needed to go on is not cut
    with bench.due(time.monotonic() - 10):
        assert bench._patience(tries) == 1
    assert bench._patience(tries) > 100

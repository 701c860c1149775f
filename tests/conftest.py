"""Shared fixtures: one fork server for all tests that run programs, a cache of their own."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Target

# Several processes share two cores; numbers must not depend on how many threads each one takes.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    """A fork server with torch loaded, shared by the whole test session."""
    with Runner() as server:
        yield server


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path_factory.mktemp("gbfix-state")
    monkeypatch.setenv("GBFIX_CACHE_DIR", str(base / "cache"))
    monkeypatch.setenv("GBFIX_STATE_DIR", str(base / "state"))


Gbfix = Callable[..., Report]


@pytest.fixture
def gbfix_run(tmp_path: Path, runner: Runner) -> Gbfix:
    """Write a program (or several files) and run the engine on it; the report."""

    def run(source: str, *, args: tuple[str, ...] = (), **options: object) -> Report:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source).lstrip("\n"))
        settings = Options(**{"use_cache": False, "timeout": 120.0, **options})  # type: ignore[arg-type]
        return engine.run(
            Target("script", "program.py", args, cwd=str(tmp_path)), settings, runner=runner
        )

    return run

"""Language servers for the tests: many in this process, on a port of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gbfix.lsp.measuring import Cancelled, Measuring
from gbfix.lsp.transport import listen
from gbfix.patch import unified_diff
from gbfix.schema import (
    Attempt,
    BreakReport,
    Frame,
    GraphBreak,
    Options,
    Patch,
    Region,
    Report,
    Rung,
    Safety,
    Step,
    Target,
    Verdict,
)

from .client import Client

BREAKING = textwrap.dedent("""\
    import torch


    def before(x):
        return x


    @torch.compile
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1


    print(f(torch.ones(3)))
    """)
FIXED = BREAKING.replace(
    "    if x.sum() > 0:\n        return x + 1\n    return x - 1\n",
    "    return torch.where(x.sum() > 0, x + 1, x - 1)\n",
)
VERDICT = Verdict((Rung("outputs", True, "20 comparisons"),), branches=(2, 2), perturbed=17)


def measured_break(path: Path, line: int = 10, **changes: object) -> BreakReport:
    frame = Frame(str(path), line, "f", 7, None, 18, "if x.sum() > 0:")
    caller = Frame(str(path), 5, "before", 4, 5, 12)
    cause = GraphBreak(
        "GB0170", "Data-dependent branching", "Detected branching (e.g. `if`). More.", "",
        (), (caller, frame), f"{path}::f", frame,
    )  # fmt: skip
    tried = Attempt("if-to-where", "select with torch.where", True)
    found = BreakReport(
        cause, "fixed", "if-to-where", attempts=(tried,), url="https://x/gb", step=0
    )
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type]


def report_on(path: Path, before: str = BREAKING, after: str = FIXED) -> Report:
    """What a run of `BREAKING` finds."""
    step = Step("if-to-where", "select with torch.where", "GB0170", {str(path): after},
                Safety.SAFE, VERDICT, ("Both arms are evaluated.",))  # fmt: skip
    patch = Patch(
        str(path), unified_diff(before, after, path.name), before, after,
        ("if-to-where",), ("GB0170",), Safety.SAFE, VERDICT, ("select with torch.where",),
    )  # fmt: skip
    region = Region("f", str(path), 8, str(path), 8, calls=1, status="fixed", breaks_before=1)
    return Report(
        path.name, "2.13.0", "0.1.0", [region], [measured_break(path)], [patch],
        steps=[step], files=(str(path),),
    )  # fmt: skip


def unsafe_report_on(path: Path) -> Report:
    """The same, with nothing but an unsafe fix."""
    report = report_on(path)
    caveat = Verdict((Rung("branches", True, "", ("one side of the condition never ran",)),))
    patch = dataclasses.replace(report.patches[0], safety=Safety.UNSAFE, verdict=caveat)
    report.patches, report.unsafe_patches, report.steps = [], [patch], []
    report.breaks = [measured_break(path, status="unfixed", codemod=None, step=None)]
    report.regions[0].status = "unfixed"
    return report


class Engine:
    """Stands in for the engine's process: answers as told, waits where told."""

    def __init__(self) -> None:
        self.asked: list[tuple[Target, Options]] = []
        self.make: Callable[[Path], Report] = report_on
        self.hold = threading.Event()
        self.hold.set()

    async def run(
        self,
        measuring: Measuring,
        target: Target,
        options: Options,
        progress: Callable[[str], None],
        cancel: asyncio.Event,
    ) -> Report:
        self.asked.append((target, options))
        progress("recording the program")
        while not self.hold.is_set():
            if cancel.is_set():
                raise Cancelled
            await asyncio.sleep(0.005)
        return self.make(Path(target.cwd, target.value))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in = Engine()

    async def run(self: Measuring, *arguments: object) -> Report:
        return await stand_in.run(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Measuring, "run", run)
    return stand_in


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """Where this process serves language clients, in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen("127.0.0.1", 0), loop).result()
    yield server.sockets[0].getsockname()[1]
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@pytest.fixture
def connect(port: int) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def make() -> Client:
        clients.append(Client.connect(port))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Callable[[], Client], engine: Engine) -> Client:
    return connect()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A project with one program that breaks."""
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    path = folder / "program.py"
    path.write_text(BREAKING)
    return path

"""Candidates tried where the program stands at its recorded calls, without a new start."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import sys
import textwrap
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import libcst as cst
import pytest

from gbfix import bench, loop, runner
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.runner import Runner
from gbfix.schema import Report, Target
from gbfix.worker import factlog, instrument, resident
from gbfix.worker.instrument import transform
from gbfix.worker.overlay import Overlay
from gbfix.worker.protocol import Instrument, Job, Outcome, RegionCalled
from gbfix.worker.swap import CannotSwap, Loaded, additions
from tests.planted import Planted

Gbfix = Callable[..., Report]

OLD = """
import os
import sys

LIMIT = 3


def double(x, times=2):
    return x * times


class Cell:
    size = 4

    def __init__(self, n):
        self.n = n

    def call(self, x):
        return double(x) + self.n
"""


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        ("return x * times", "return x + times", []),
        ("import os\n", "", []),
        ("import os\n", "import os\nimport math\n", ["import math"]),
        ("LIMIT = 3\n", "LIMIT = 3\n\n\ndef inner(x):\n    return x\n", ["def inner(x):"]),
        ("return double(x) + self.n", "y = self.n\n        return double(x) + y", []),
        ("class Cell:", "FACTOR = 2\n\n\nclass Cell:", ["FACTOR = 2"]),
    ],
)
def test_what_a_patch_adds_to_a_module(old: str, new: str, added: list[str]) -> None:
    found = additions(ast.parse(OLD), ast.parse(OLD.replace(old, new)))
    assert [ast.unparse(item).splitlines()[0] for item in found] == added


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3\n", ""),
        ("times=2", "times=3"),
        ("def double", "@staticmethod\ndef double"),
        ("class Cell:", "class Cell(dict):"),
        ("size = 4", "size = 5"),
        ("self.n = n", "self.n = n + 1"),
        ("    def call", "    def other(self):\n        pass\n\n    def call"),
        ("def double(x, times=2):\n    return x * times\n", ""),
        ("def double(x, times=2):\n    return x * times\n", "double = len\n"),
    ],
)
def test_what_needs_a_new_start(old: str, new: str) -> None:
    with pytest.raises(CannotSwap):
        additions(ast.parse(OLD), ast.parse(OLD.replace(old, new)))


# -- swapping in a loaded module -------------------------------------------------------------------

MODULE = """
import functools


def kept(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@kept
def decorated(x):
    return x + 1


def make():
    def made(x):
        return x + 2

    return made


local = make()
hidden = [make()]


class Cell:
    @property
    def size(self):
        return 3

    @classmethod
    def build(cls):
        return cls()

    def call(self, x):
        return (lambda y: y + 4)(x)
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[types.ModuleType]:
    path = tmp_path / "swapped_module.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("swapped_module", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["swapped_module"] = loaded
    spec.loader.exec_module(loaded)
    yield loaded
    del sys.modules["swapped_module"]


def swapped(
    module: types.ModuleType, old: str, new: str, *instruments: Instrument, thorough: bool = False
) -> None:
    assert old in MODULE
    path = str(module.__file__)
    loaded = Loaded(lambda name: name == path, thorough=thorough)
    loaded.swap(Overlay({path: MODULE.replace(old, new).encode()}, instruments, transform))


@pytest.mark.parametrize("thorough", [False, True])
def test_functions_get_their_new_code_and_lines(module: types.ModuleType, thorough: bool) -> None:
    before = [f.__code__.co_firstlineno for f in (module.decorated.__wrapped__, module.make)]
    swapped(module, "    return x + 1", "    # why\n    return helper(x)", thorough=thorough)
    with pytest.raises(NameError):
        module.decorated(1)
    after = [f.__code__.co_firstlineno for f in (module.decorated.__wrapped__, module.make)]
    assert after == [before[0], before[1] + 1]


@pytest.mark.parametrize(
    ("old", "new", "call", "result"),
    [
        ("return x + 1", "return x + 10", lambda m: m.decorated(1), 11),
        ("return x + 2", "return x + 20", lambda m: m.local(1), 21),
        ("return x + 2", "return x + 20", lambda m: m.hidden[0](1), 21),
        ("return 3", "return 30", lambda m: m.Cell().size, 30),
        ("return cls()", "return cls", lambda m: m.Cell.build(), None),
        ("y + 4", "y + 40", lambda m: m.Cell().call(1), 41),
        (
            "class Cell:",
            "def helper(x):\n    return x + FACTOR\n\n\nFACTOR = 7\n\n\nclass Cell:",
            lambda m: m.helper(1),
            8,
        ),
    ],
)
def test_live_objects_run_the_new_text(
    module: types.ModuleType, old: str, new: str, call: Callable[..., object], result: object
) -> None:
    swapped(module, old, new)
    assert call(module) == (module.Cell if result is None else result)


@pytest.mark.parametrize("wanted", [False, True])
def test_a_condition_is_forced_in_what_a_patch_adds(
    module: types.ModuleType, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    monkeypatch.setattr("builtins." + instrument.FORCE, factlog.force, raising=False)
    new = "def check(x):\n    return 'bad' if x > 4 else 'good'\n\n\nclass Cell:"
    line = MODULE[: MODULE.index("class Cell:")].count("\n") + 2
    path = str(module.__file__)
    at = Instrument(path, "force", line, 20, line, 25, value=wanted)
    swapped(module, "class Cell:", new, at)
    assert [module.check(x) for x in (3, 5)] == (["bad"] * 2 if wanted else ["good"] * 2)


def test_a_closure_over_something_else_needs_a_new_start(module: types.ModuleType) -> None:
    with pytest.raises(CannotSwap, match="closes over"):
        swapped(module, "    def made(x):\n        return x + 2",
                "    y = 3\n\n    def made(x):\n        return x + y")  # fmt: skip


# -- whole runs ------------------------------------------------------------------------------------

PROGRAM = """
import torch

started = []


def scale(x):
    if not started:
        return x
    return x * 2


before = scale(torch.ones(2))
started.append(True)


class Model(torch.nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        if x.sum() > 0:
            x = x * 2
        else:
            x = x - 1
        return scale(x)


model = torch.compile(Model())
for k in range(2):
    model(torch.ones(3) * (1 - 2 * k))
print(before)
"""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every program counts as heavy; the modes of all starts of the program."""
    monkeypatch.setattr(bench, "HEAVY", -1.0)
    found: list[str] = []
    original = Runner.run

    def run(self: Runner, job: Job, timeout: float, **options: object) -> Outcome:
        found.append(job.mode)
        return original(self, job, timeout, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Runner, "run", run)
    return found


def test_a_whole_run_starts_the_program_four_times(gbfix_run: Gbfix, starts: list[str]) -> None:
    report = gbfix_run(PROGRAM)
    assert [item.status for item in report.breaks] == ["fixed", "fixed"]
    assert [region.status for region in report.regions] == ["fixed"]
    (patch,) = report.patches
    assert patch.safety.value == "safe"
    # Recorded twice (eager and as compiled), and all patches confirmed twice.
    assert sorted(starts) == ["candidate", "golden", "user", "user"]
    assert report.regions[0].graphs_after == 1


def test_the_same_is_found_from_the_start(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = gbfix_run(PROGRAM)
    monkeypatch.setattr(bench, "HEAVY", -1.0)
    fast = gbfix_run(PROGRAM)
    assert [(item.path, item.after) for item in fast.patches] == [
        (item.path, item.after) for item in slow.patches
    ]
    assert [r.name for r in fast.patches[0].verdict.rungs] == [
        r.name for r in slow.patches[0].verdict.rungs
    ]
    assert fast.regions == slow.regions


class Twice(Codemod):
    """Proposes what still breaks, and then what does not."""

    name = "twice"
    codes = ("GB0025",)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        for title, text in (("in vain", "y = 1\ntorch._dynamo.graph_break()"), ("right", "y = 2")):
            edit = site.edit()
            edit.replace(site.statement, *cst.parse_module(text).body)
            yield edit.rewrite(title, rank=1 if title == "in vain" else 2)


def test_what_breaks_again_at_the_first_call_is_not_tried_at_the_others(
    gbfix_run: Gbfix, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    original = Runner.ask

    def ask(self: Runner, job: Job, *args: object, **how: object) -> Outcome | None:
        outcome = original(self, job, *args, **how)  # type: ignore[arg-type]
        if job.mode == "candidate" and outcome is not None:
            calls.append(len({event.index for event in outcome.of(RegionCalled)}))
        return outcome

    monkeypatch.setattr(runner, "_PATIENCE", 60.0)
    monkeypatch.setattr(Runner, "ask", ask)
    monkeypatch.setattr(loop, "discover", lambda: [Twice()])
    report = gbfix_run(PROGRAM)
    (item,) = (item for item in report.breaks if item.graph_break.code == "GB0025")
    assert [(attempt.title, attempt.passed) for attempt in item.attempts] == [
        ("in vain", False),
        ("right", True),
    ]
    assert "still breaks" in item.attempts[0].reason
    assert calls == [1, 2]


class Many(Codemod):
    """Four that break again, one that is right, and two more."""

    name = "many"
    codes = ("GB0025",)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        for number in range(7):
            edit = site.edit()
            text = "y = 2" if number == 4 else f"y = {number}\ntorch._dynamo.graph_break()"
            edit.replace(site.statement, *cst.parse_module(text).body)
            yield edit.rewrite(f"number {number}", rank=number)


def test_the_next_one_is_begun_where_one_failed(
    gbfix_run: Gbfix, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    original = Runner.ask

    def ask(self: Runner, job: Job, *args: object, **how: object) -> Outcome | None:
        outcome = original(self, job, *args, **how)  # type: ignore[arg-type]
        if job.mode == "candidate" and outcome is not None:
            ends.append(outcome.ended)
        return outcome

    monkeypatch.setattr(Runner, "ask", ask)
    monkeypatch.setattr(loop, "discover", lambda: [Many()])
    report = gbfix_run(PROGRAM)
    (item,) = (item for item in report.breaks if item.graph_break.code == "GB0025")
    assert [(attempt.title, attempt.passed) for attempt in item.attempts] == [
        (f"number {number}", number == 4) for number in range(5)
    ]
    assert item.status in ("fixed", "fixable")
    # Number 5 was begun while the right one ran, and is no result of any.
    assert ends.count("ok") in (5, 6) and len(ends) == 6


def test_what_only_a_start_shows_is_caught(
    gbfix_run: Gbfix, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patch is right at the recorded calls, and wrong before them."""
    codemod = Planted("return x\n    return x * 2", "return -x\n    return x * 2")
    propose = codemod.propose

    def both(site: Site) -> Iterator[Rewrite | Advice]:
        for item in propose(site):
            assert isinstance(item, Rewrite)
            ((path, text),) = item.edits.items()
            text = text.replace("        torch._dynamo.graph_break()\n", "")
            yield dataclasses.replace(item, edits={path: text})

    monkeypatch.setattr(codemod, "propose", both)
    monkeypatch.setattr(loop, "discover", lambda: [codemod])
    report = gbfix_run(PROGRAM)
    assert not report.patches
    attempts = [item for found in report.breaks for item in found.attempts]
    assert any("global.before" in item.reason for item in attempts), attempts
    assert {item.status for item in report.breaks} == {"unfixed"}
    assert not report.steps


def test_what_cannot_be_swapped_is_run_from_the_start(
    gbfix_run: Gbfix, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codemod = Planted(
        "        torch._dynamo.graph_break()\n        if x.sum() > 0:\n            x = x * 2\n"
        "        else:\n            x = x - 1\n        return scale(x)",
        "        return scale(torch.where(x.sum() > 0, self.twice(x), x - 1))\n\n"
        "    def twice(self, x):\n        return x * 2",
    )
    monkeypatch.setattr(loop, "discover", lambda: [codemod])
    report = gbfix_run(PROGRAM)
    assert [region.status for region in report.regions] == ["fixed"]
    assert sorted(starts) == ["candidate", "golden", "user", "user"]


def test_a_program_that_writes_files_is_run_from_the_start(
    gbfix_run: Gbfix, starts: list[str], tmp_path: Path
) -> None:
    report = gbfix_run(PROGRAM + f"open({str(tmp_path / 'out')!r}, 'a').write('x')\n")
    assert [region.status for region in report.regions] == ["fixed"]
    assert starts.count("facts") >= 1


@pytest.mark.slow
def test_a_program_with_very_many_calls_is_run_from_the_start(
    gbfix_run: Gbfix, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = "".join(
        f"@torch.compile(backend='eager')\ndef f{n}(x):\n    return x\n\n\nf{n}(torch.ones(2))\n"
        for n in range(resident.MOST)
    )
    report = gbfix_run(PROGRAM + regions)
    assert report.regions[0].status == "fixed"
    assert "facts" in starts


def test_nothing_stays_behind(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).lstrip("\n"))
    with Runner() as server:
        server.wait_ready()
        target = Target("script", "program.py", cwd=str(tmp_path))
        job = Job("golden", target, server.new_directory("golden"), str(tmp_path), residents=True)
        server.run(job, 60)
        found = server.residents(job.directory)
        assert [item.index for item in found] == [0, 1]
        assert found[0].after <= found[1].after
        again = Job("facts", target, server.new_directory("facts"), str(tmp_path),
                    golden=job.directory)  # fmt: skip
        outcome = server.ask(again, found, 60)
        assert outcome is not None
        server.release()
        assert not server.residents(job.directory)
        second = Job("facts", target, server.new_directory("facts"), str(tmp_path))
        assert server.ask(second, found, 60) is None
        third = Job("golden", target, server.new_directory("golden"), str(tmp_path),
                    residents=True)  # fmt: skip
        server.run(third, 60)
        found += server.residents(third.directory)
    assert _gone([item.pid for item in found])


def _gone(pids: list[int]) -> bool:
    """Whether all processes have ended, now or soon."""
    for _ in range(100):
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"

"""A function that was cut in two the wrong way is never called safe."""

from __future__ import annotations

import pytest
from planted import Gbfix, Wrong, assert_caught, run_planted

PROGRAM = """
h = torch.ones(3)
seen = []


def note(y):
    seen.append(len(seen))
    print("peak", y.max().item())


class nested:
    depth = 0

    def __enter__(self):
        nested.depth += 1

    def __exit__(self, *error):
        nested.depth -= 1


@torch.compile
def f(x, w):
    with nested():
        h = x * 2
        x.data.add_(1)
        y = h.view(-1)
        torch._dynamo.graph_break()
        note(y)
        y = y - w * nested.depth
    return y * h


f(torch.ones(3, requires_grad=True) * 1, torch.full((3,), 0.5))
f(torch.ones(3, requires_grad=True) * 2, torch.full((3,), 0.25))
"""
WHOLE = PROGRAM[PROGRAM.index("@torch.compile") : PROGRAM.index("\n\nf(torch")]
RIGHT = """def f(x, w):
    with nested():
        h, y = f_part_1(x)
        note(y)
        y = f_part_2(y, w)
    return f_part_3(y, h)


@torch.compile
def f_part_1(x):
    h = x * 2
    x.data.add_(1)
    y = h.view(-1)
    return h, y


@torch.compile
def f_part_2(y, w):
    y = y - w * nested.depth
    return y


@torch.compile
def f_part_3(y, h):
    return y * h
"""


def _wrong(name: str, *changes: tuple[str, str], rung: str, says: str = "") -> Wrong:
    text = RIGHT
    for old, new in changes:
        assert text.count(old) == 1, (name, old)
        text = text.replace(old, new)
    return Wrong(name, PROGRAM, WHOLE, text, rung, says)


CASES = [
    _wrong(
        "a live value is forgotten, and a global of its name is read",
        ("h, y = f_part_1", "_, y = f_part_1"),
        ("return f_part_3(y, h)", "return f_part_3(y)"),
        ("def f_part_3(y, h)", "def f_part_3(y)"),
        rung="outputs",
    ),
    _wrong(
        "a value from before the first part",
        ("f_part_3(y, h)\n\n\n", "f_part_3(y, x)\n\n\n"),
        rung="outputs",
    ),
    _wrong(
        "the wrong order of arguments",
        ("f_part_2(y, w)\n    return", "f_part_2(w, y)\n    return"),
        rung="outputs",
    ),
    _wrong("an effect that is left out", ("        note(y)\n", ""), rung="outputs", says="seen"),
    _wrong(
        "an effect that comes too late",
        ("        note(y)\n", ""),
        ("y = f_part_2(y, w)\n    return", "y = f_part_2(y, w)\n        note(y)\n    return"),
        rung="effects",
        says="stdout",
    ),
    _wrong(
        "a context that is left too early",
        ("        y = f_part_2(y, w)\n", "    y = f_part_2(y, w)\n"),
        rung="outputs",
    ),
    _wrong(
        "a part that loses half of the gradient",
        ("f_part_3(y, h)\n\n\n", "f_part_3(y, h.detach())\n\n\n"),
        rung="gradients",
    ),
    _wrong(
        "a part that changes a copy of its argument",
        ("f_part_1(x)\n        note", "f_part_1(x.clone())\n        note"),
        rung="outputs",
        says="input after the call",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_cut_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))


def test_the_right_cut_is_safe(gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Wrong("right", PROGRAM, WHOLE, RIGHT, "")
    report = run_planted(right, gbfix_run, monkeypatch)
    assert len(report.patches) == 1, report


# -- locks and profilers ---------------------------------------------------------------------------

LOCKED = """
import threading

LOCK = threading.RLock()
held = []


def note():
    held.append(repr(LOCK).startswith("<locked"))


@torch.compile
def f(x):
    y = x * 2
    LOCK.acquire()
    torch._dynamo.graph_break()
    note()
    LOCK.release()
    return y + 1


f(torch.ones(3))
f(torch.ones(3) * 2)
"""
LOCKED_WHOLE = LOCKED[LOCKED.index("@torch.compile") : LOCKED.index("\n\nf(torch")]
LOCKED_RIGHT = """def f(x):
    y = f_before(x)
    LOCK.acquire()
    note()
    LOCK.release()
    return f_after(y)


@torch.compile
def f_before(x):
    return x * 2


@torch.compile
def f_after(y):
    return y + 1
"""
PROFILED = """
def spans(profile):
    return {item.name for item in profile.function_events} & {"work", "aten::sin"}


@torch.compile
def f(x):
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        with torch.profiler.record_function("work"):
            torch._dynamo.graph_break()
            y = x.sin()
    return y + 1, spans(profile)


f(torch.ones(3))
f(torch.ones(3) * 2)
"""
PROFILED_WHOLE = PROFILED[PROFILED.index("@torch.compile") : PROFILED.index("\n\nf(torch")]
PROFILED_RIGHT = """def f(x):
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        with torch.profiler.record_function("work"):
            y = f_inside(x)
    return f_after(y), spans(profile)


@torch.compile
def f_inside(x):
    return x.sin()


@torch.compile
def f_after(y):
    return y + 1
"""


def _locked(name: str, old: str, new: str, rung: str, says: str) -> Wrong:
    assert LOCKED_RIGHT.count(old) == 1
    return Wrong(name, LOCKED, LOCKED_WHOLE, LOCKED_RIGHT.replace(old, new), rung, says)


def _profiled(name: str, old: str, new: str, rung: str, says: str = "") -> Wrong:
    assert PROFILED_RIGHT.count(old) == 1
    return Wrong(name, PROFILED, PROFILED_WHOLE, PROFILED_RIGHT.replace(old, new), rung, says)


GUARDED = [
    _locked(
        "a lock that is given back too early",
        "    note()\n    LOCK.release()\n",
        "    LOCK.release()\n    note()\n",
        "outputs",
        "held",
    ),
    _locked("a lock that is never given back", "    LOCK.release()\n", "", "outputs", "LOCK"),
    _profiled(
        "a profiler that is left too early",
        "            y = f_inside(x)\n",
        "            pass\n    y = f_inside(x)\n",
        "outputs",
    ),
    _profiled(
        "a range that is left out",
        'torch.profiler.record_function("work")',
        "torch.no_grad()",
        "outputs",
    ),
]


@pytest.mark.parametrize("case", GUARDED, ids=lambda case: case.name)
def test_a_lock_or_a_profiler_in_the_wrong_place_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))


@pytest.mark.parametrize(
    "right",
    [
        Wrong("locked", LOCKED, LOCKED_WHOLE, LOCKED_RIGHT, ""),
        Wrong("profiled", PROFILED, PROFILED_WHOLE, PROFILED_RIGHT, ""),
    ],
    ids=lambda case: case.name,
)
def test_the_right_place_is_found_right(
    right: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_planted(right, gbfix_run, monkeypatch)
    attempts = [attempt for item in report.breaks for attempt in item.attempts]
    assert attempts and attempts[0].passed, attempts


SOMETIMES = """
import random


class Net(torch.nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        if random.random() < 0.3:
            return x
        return x.sin() * 2


net = torch.compile(Net())
random.seed(1)
net(torch.ones(3))
"""
DRAW = SOMETIMES[SOMETIMES.index("    def forward") : SOMETIMES.index("\n\nnet =")]
CUT_AT_THE_DRAW = """    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        if random.random() < 0.3:
            return x
        return self.forward_after(x)

    def forward_after(self, x):
        return x.sin() * 2
"""


def test_a_call_that_runs_no_part_is_no_error(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch raises under ``fullgraph=True`` where nothing of a call is compiled."""
    case = Wrong("sometimes", SOMETIMES, DRAW, CUT_AT_THE_DRAW, "")
    report = run_planted(case, gbfix_run, monkeypatch)
    attempts = [attempt for item in report.breaks for attempt in item.attempts]
    assert attempts and attempts[0].passed, attempts


def test_a_patch_that_leaves_nothing_compiled_is_never_called_safe(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = CUT_AT_THE_DRAW.replace("self.forward_after(x)", "x.sin() * 2")
    case = Wrong("eager", SOMETIMES, DRAW, eager, "eager", "no call runs anything")
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))


def test_a_cut_below_the_region_only_moves_its_break(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dynamo may pass over the function with which a region begins, over no function below."""
    below = SOMETIMES.replace("compile(Net())", "compile(torch.nn.Sequential(Net(), Net()))")
    case = Wrong("below", below, DRAW, CUT_AT_THE_DRAW, "program", "keeps from the compiler")
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))

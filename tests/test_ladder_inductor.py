"""Operators that inductor has been seen to get wrong are compiled there before a patch is safe."""

from __future__ import annotations

import os
import shutil

import pytest
from planted import HEAD, Gbfix, Planted

from gbfix import bench, cache, ladder, loop
from gbfix.schema import Options, Patch, Report, Rung, Safety, Target, Verdict
from gbfix.worker.protocol import Failed, Outcome

pytestmark = pytest.mark.skipif(
    not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")),
    reason="inductor needs a C++ compiler",
)

OPERATOR = """
@torch.library.custom_op("program::say", mutates_args=())
def say({parameters}) -> None:
    print("said")


say.register_fake(lambda {names}: None)
say.register_effect(torch.library.EffectType.ORDERED)
"""

PROGRAM = """
linear = torch.nn.Linear(4, 2)


@torch.compile
def f(x):
    y = linear(x)
    torch._dynamo.graph_break()
    print("said")
    return y


f(torch.ones(1, 4)).sum().backward()
"""


def _patch(parameters: str, names: str, call: str, program: str = PROGRAM) -> Planted:
    old = program.strip()
    new = old.replace('    torch._dynamo.graph_break()\n    print("said")\n', f"    {call}\n")
    return Planted(old, OPERATOR.format(parameters=parameters, names=names) + "\n\n" + new)


def test_an_operator_that_only_inductor_gets_wrong_is_rejected(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a tensor among its arguments, the generated code calls it too early.
    monkeypatch.setattr(loop, "discover", lambda: [_patch("", "", "say()")])
    report = gbfix_run(HEAD + PROGRAM, inductor=True)
    (attempt, *_) = report.breaks[0].attempts
    assert not report.patches
    assert attempt.reason.startswith("inductor: "), attempt.reason


def test_an_operator_that_inductor_gets_right_is_safe(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = _patch("anchor: torch.Tensor", "anchor", "say(torch.empty(0))")
    monkeypatch.setattr(loop, "discover", lambda: [planted])
    report = gbfix_run(HEAD + PROGRAM, inductor=True)
    assert report.patches, report.breaks[0].attempts
    (patch,) = report.patches
    rung = patch.verdict.rung("inductor")
    assert rung is not None and rung.passed, rung


#: Stands for a model that inductor compiles for ever.
SLOW = """
import time

import torch._inductor.compile_fx as inductor

inductor.compile_fx = lambda *args, **options: time.sleep(3600)
"""


@pytest.mark.parametrize("heavy", [False, True], ids=["from the start", "at the calls"])
def test_a_compilation_that_takes_too_long_is_no_ground_for_safe(
    heavy: bool, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = _patch("anchor: torch.Tensor", "anchor", "say(torch.empty(0))")
    monkeypatch.setattr(loop, "discover", lambda: [planted])
    if heavy:
        monkeypatch.setattr(bench, "HEAVY", -1.0)
    report = gbfix_run(HEAD + SLOW + PROGRAM, inductor=True, inductor_timeout=1.0)
    assert not report.patches
    (attempt,) = report.breaks[0].attempts
    assert attempt.passed and attempt.safety is Safety.UNSAFE
    (patch,) = report.unsafe_patches
    rung = patch.verdict.rung("inductor")
    assert rung is not None and rung.passed is None
    assert rung.detail == "did not end within 1 s"
    assert "--inductor-timeout" in patch.verdict.caveats[0]


def test_where_all_is_slow_under_inductor_only_two_are_tried(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = [_patch("anchor: torch.Tensor", "anchor", f"say(torch.empty({n}))") for n in range(3)]
    monkeypatch.setattr(loop, "discover", lambda: planted)
    report = gbfix_run(HEAD + SLOW + PROGRAM, inductor=True, inductor_timeout=1.0)
    # Attempts that came to the very same are listed once.
    first, last = report.breaks[0].attempts
    assert "did not end within 1 s" in first.reason
    assert "was not begun, 2 others did not end" in last.reason
    assert first.safety is last.safety is Safety.UNSAFE


def test_a_later_step_does_not_hide_what_was_not_tried(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "    torch._dynamo.graph_break()\n    return y + 1\n"
    program = PROGRAM.replace("    return y\n", more)
    first = _patch("anchor: torch.Tensor", "anchor", "say(torch.empty(0))", program)
    second = Planted(more, "    return y + 1\n")
    monkeypatch.setattr(loop, "discover", lambda: [first, second])
    options = {"inductor": True, "inductor_timeout": 1.0, "unsafe_fixes": True}
    report = gbfix_run(HEAD + SLOW + program, **options)
    assert {item.status for item in report.breaks} == {"fixed"}
    assert len(report.steps) == 2
    (patch,) = report.patches
    rung = patch.verdict.rung("inductor")
    assert rung is not None and rung.passed is None and rung.caveats
    assert patch.safety is Safety.UNSAFE


@pytest.mark.parametrize("passed", [True, None], ids=["passed", "not tried to the end"])
def test_what_a_time_limit_decided_is_not_kept(passed: bool | None) -> None:
    verdict = Verdict((Rung("inductor", passed),))
    patch = Patch("a.py", "", "", "", (), (), Safety.UNSAFE, verdict)
    target = Target("script", "a.py")
    cache.store(target, Options(), "2.13", Report("a.py", unsafe_patches=[patch]), ())
    assert (cache.load(target, Options(), "2.13") is not None) is bool(passed)


@pytest.mark.parametrize(
    "outcome",
    [Outcome([], "timeout", "200 s"), Outcome([Failed("timeout", "timeout 200 s", key="f")])],
    ids=["a run", "a run in place of a fork"],
)
def test_what_was_ended_by_its_time_is_no_verdict(outcome: Outcome) -> None:
    baseline = ladder.Baseline({}, {}, {}, b"", True, True, {})
    rung = ladder.one_backend(outcome, None, baseline, "inductor", 120.0)
    assert rung.passed is None and "120 s" in rung.detail and rung.caveats


def test_tensor_code_that_inductor_cannot_compile_becomes_an_operator(gbfix_run: Gbfix) -> None:
    # With the numbers kept in the graph, inductor asks which sign the start of the span has.
    report = gbfix_run(
        """
        import torch


        @torch.compile
        def mask(x):
            width = torch.randint(0, 3, (1,)).item()
            start = torch.randint(0, 8 - width, (1,)).item()
            x = x.clone()
            x[:, start : start + width] = 0
            return x


        torch.manual_seed(0)
        print(mask(torch.ones(2, 8)))
        """,
        inductor=True,
    )
    tried = [attempt for item in report.breaks for attempt in item.attempts]
    (option,) = (attempt for attempt in tried if attempt.codemod == "region-option")
    assert not option.passed and "inductor" in option.reason
    (patch,) = report.patches
    assert patch.codemods == ("wrap-piece",) and patch.safety is Safety.SAFE
    assert "register_effect" in patch.after  # it draws numbers

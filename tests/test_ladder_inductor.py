"""Operators that inductor has been seen to get wrong are compiled there before a patch is safe."""

from __future__ import annotations

import os
import shutil

import pytest
from planted import HEAD, Gbfix, Planted

from gbfix import ladder, loop
from gbfix.worker.protocol import Outcome

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


def _patch(parameters: str, names: str, call: str) -> Planted:
    old = PROGRAM.strip()
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


def test_a_compilation_that_takes_too_long_is_no_verdict() -> None:
    baseline = ladder.Baseline({}, {}, {}, b"", True, True, {})
    rung = ladder.one_backend(Outcome([], "timeout", "300 s"), None, baseline, "inductor")
    assert rung.passed is None and "300 s" in rung.detail

"""Calls that leave the program: what they do before, and what is told of them."""

from __future__ import annotations

import pytest
from planted import Gbfix, Wrong, run_planted

from gbfix.schema import Safety

PROGRAM = """
import sys


@torch.library.custom_op("exits::leave", mutates_args=())
def leave(x: torch.Tensor) -> None:
    if not x.sum().isfinite():
        print("left")
        sys.exit(3)


leave.register_fake(lambda x: None)
leave.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def step(x):
    if not x.sum().isfinite():
        print("left")
        sys.exit(3)
    return x * 2


step(torch.tensor([1.0, 2.0, 3.0]))
"""
LAST = "step(torch.tensor([1.0, 2.0, 3.0]))"
#: A program of which gbfix makes the operator by itself.
WHOLE = f"""
import math
import sys

import torch


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen = self.seen + x
        total = x.sum()
        if not math.isfinite(total.item()):
            print("left", total.item())
            sys.exit(3)
        return x * 2


model = Step()
step = torch.compile(model)
{LAST}
"""
#: In the operator, which comes first.
TOLD = 'print("left")\n        '
CALL = "    leave(x)\n    return"
OLD = """\
    if not x.sum().isfinite():
        print("left")
        sys.exit(3)
    return"""


def test_what_a_graph_had_not_set_when_it_left_is_a_limit(gbfix_run: Gbfix) -> None:
    (patch,) = gbfix_run(WHOLE).patches
    assert patch.safety is Safety.SAFE, patch.verdict.caveats
    assert patch.codemods == ("wrap-piece",)
    limits = [text for rung in patch.verdict.rungs for text in rung.limits]
    assert any("changes that it made to" in text and "seen" in text for text in limits), limits


@pytest.mark.parametrize(
    "around",
    [
        "try:\n    {}\nexcept SystemExit:\n    print(model.seen)\n",
        "try:\n    {}\nexcept BaseException as error:\n    print(error, model.seen)\n",
        "try:\n    {}\nfinally:\n    print(model.seen)\n",
    ],
)
def test_where_something_runs_after_the_exit_its_state_counts(
    around: str, gbfix_run: Gbfix
) -> None:
    assert WHOLE.count(LAST) == 1
    assert not gbfix_run(WHOLE.replace(LAST, around.format(LAST))).patches


def test_a_patch_that_leaves_alike_is_safe(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_planted(Wrong("exit", PROGRAM, OLD, CALL, ""), gbfix_run, monkeypatch)
    assert [patch.safety for patch in report.patches] == [Safety.SAFE]


@pytest.mark.parametrize(
    ("program", "new"),
    [
        (PROGRAM.replace(f"{TOLD}sys.exit(3)", f"{TOLD}sys.exit(4)", 1), CALL),
        (PROGRAM.replace(f"{TOLD}sys.exit(3)", TOLD, 1), CALL),
        (PROGRAM.replace(TOLD, "", 1), CALL),
        (PROGRAM, "    return"),
    ],
    ids=["another status", "it goes on", "without a word", "never"],
)
def test_a_patch_that_leaves_in_another_way_is_not_safe(
    program: str, new: str, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_planted(Wrong("exit", program, OLD, new, ""), gbfix_run, monkeypatch)
    assert not report.patches, report.patches[0].diff

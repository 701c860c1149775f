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


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen = self.seen + x
        if not x.sum().isfinite():
            print("left")
            sys.exit(3)
        return x * 2


step = torch.compile(Step())
step(torch.tensor([1.0, 2.0, 3.0]))
"""
#: In the operator, which comes first.
TOLD = 'print("left")\n        '
CALL = "        leave(x)\n"
OLD = """\
        if not x.sum().isfinite():
            print("left")
            sys.exit(3)
"""


def test_what_a_graph_had_not_set_when_it_left_is_a_limit(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_planted(Wrong("exit", PROGRAM, OLD, CALL, ""), gbfix_run, monkeypatch)
    (patch,) = report.patches
    assert patch.safety is Safety.SAFE, patch.verdict.caveats
    limits = [text for rung in patch.verdict.rungs for text in rung.limits]
    assert any("does not change" in text and "seen" in text for text in limits), limits


@pytest.mark.parametrize(
    ("program", "new"),
    [
        (PROGRAM.replace(f"{TOLD}sys.exit(3)", f"{TOLD}sys.exit(4)", 1), CALL),
        (PROGRAM.replace(f"{TOLD}sys.exit(3)", TOLD, 1), CALL),
        (PROGRAM.replace(TOLD, "", 1), CALL),
        (PROGRAM, ""),
    ],
    ids=["another status", "it goes on", "without a word", "never"],
)
def test_a_patch_that_leaves_in_another_way_is_not_safe(
    program: str, new: str, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_planted(Wrong("exit", program, OLD, new, ""), gbfix_run, monkeypatch)
    assert not report.patches, report.patches[0].diff

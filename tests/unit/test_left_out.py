"""What a cut function still does in Python: operators outside of its parts, and parts by call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gbfix.ladder import Baseline, judge
from gbfix.schema import Rung
from gbfix.worker.left_out import Outside, passed_over
from gbfix.worker.protocol import LeftOut, Outcome, RegionCalled, Traced
from gbfix.worker.recorder import Region

X = torch.ones(3)


def counted(run: Callable[[Callable[..., Any]], Any]) -> tuple[int, int]:
    outside = Outside(run)
    part = outside.part(lambda x: (x * 2).relu(), Region("part", {}))
    outside.watched(run)(part)
    return outside.operators, outside.parts


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda part: part(X), (0, 1)),
        (lambda part: (str(X.shape), part(X)), (0, 1)),
        (lambda part: part(X + 1), (1, 1)),
        (lambda part: part(part(X)), (0, 2)),
        (lambda part: X.tolist(), (1, 0)),
        (lambda part: X.numpy().tobytes(), (1, 0)),
        (lambda part: [part(X) for _ in range(3)], (0, 3)),
        (lambda part: float(X.sum()), (2, 0)),
        (lambda part: X.requires_grad, (0, 0)),
    ],
)
def test_what_runs_outside_of_parts_is_counted(run: Any, expected: tuple[int, int]) -> None:
    assert counted(run) == expected


class Passed(torch.nn.Module):
    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own

    @torch.compiler.disable(recursive=False)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.half(x + 1 if self.own else x)

    def half(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize("own", [True, False])
def test_what_a_frame_that_is_passed_over_computes_by_itself(own: bool) -> None:
    net = Passed(own)
    outside = Outside(net)
    outside.watched(net)(X)
    assert outside.operators == own
    assert passed_over(net) is not None
    assert passed_over(torch.nn.Linear(2, 2)) is None


BASELINE = Baseline(
    calls={"f": (0, 1)}, graphs={}, breaks={}, shown=b"", stable_output=True,
    ended_by_itself=False, unstable={},
)  # fmt: skip


def is_split(told: list[LeftOut], graphs: int = 1) -> bool:
    user = [Traced("f_after", 0, "user", (), graphs=graphs)]
    candidate: list[object] = [RegionCalled("f", 0), RegionCalled("f_after", 0), *told]
    return judge(
        Rung("source", True), Outcome(candidate), Outcome([*user]), BASELINE, (),
        target="f", avoid=frozenset(), avoid_path="", avoid_code="",
    ).split  # fmt: skip


def test_a_cut_that_leaves_only_python_outside_is_no_split() -> None:
    assert not is_split([LeftOut("f", 0, 0, 1), LeftOut("f", 1, 0, 1)])


@pytest.mark.parametrize(
    ("told", "graphs"),
    [
        ([], 1),
        ([LeftOut("f", 0, 0, 1)], 1),  # nothing is known of the other call
        ([LeftOut("f", 0, 0, 1), LeftOut("f", 1, 1, 1)], 1),
        ([LeftOut("f", 0, 0, 1), LeftOut("f", 1, 0, 2)], 1),
        ([LeftOut("f", 0, 0, 1), LeftOut("f", 1, 0, 1)], 2),
    ],
)
def test_a_cut_that_leaves_more_is_a_split(told: list[LeftOut], graphs: int) -> None:
    assert is_split(told, graphs)

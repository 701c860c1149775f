"""`torch.equal` of two arguments becomes `is` where the longer way gives the same."""

from __future__ import annotations

import pytest
from planted import Gbfix

PROGRAM = """
import torch


@torch.compile(backend="aot_eager")
def f(a, b):
    if torch.equal(a, b):
        return {same}
    return {other}


x = torch.randn(4)
{calls}
"""


@pytest.mark.parametrize(
    ("same", "other", "calls", "safe"),
    [
        ("a * 2", "a + b", "print(f(x, x), f(x, torch.randn(4)))", True),
        # Equal numbers in two tensors would go the other way, and get something else.
        ("a * 2", "a + b + (a == b).all()", "print(f(x, x), f(x, torch.randn(4)))", False),
    ],
    ids=["the same", "another result"],
)
def test_the_longer_way_must_give_the_same(
    same: str, other: str, calls: str, safe: bool, gbfix_run: Gbfix
) -> None:
    report = gbfix_run(
        PROGRAM.format(same=same, other=other, calls=calls),
        select=("GB0033", "same-object"),
    )
    assert bool(report.patches) is safe, report.breaks[0].attempts
    if safe:
        rung = report.patches[0].verdict.rung("shown")
        assert rung is not None and rung.detail == "twins" and not rung.caveats


def test_tensors_that_the_region_computes_are_not_shown(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import torch


        @torch.compile(backend="aot_eager")
        def f(a, b):
            a, b = a + 1, b + 1
            if torch.equal(a, b):
                return a * 2
            return a + b


        x = torch.randn(4)
        print(f(x, torch.randn(4)))
        """,
        select=("GB0033", "same-object"),
    )
    assert not report.patches
    (patch,) = report.unsafe_patches
    assert "gbfix could not test this" in " ".join((*patch.notes, *patch.verdict.caveats))


def test_other_tensors_that_are_equal_show_nothing(gbfix_run: Gbfix) -> None:
    # `a` and `b` never have one size here: that `c` and `d` may be equal says nothing of them.
    report = gbfix_run(
        """
        import torch


        @torch.compile(backend="aot_eager")
        def f(a, b, c, d):
            if torch.equal(a, b):
                return a * 0
            return a.sum() + b.sum() + c + d


        print(f(torch.randn(3), torch.randn(4), torch.randn(2), torch.randn(2)))
        """,
        select=("GB0033", "same-object"),
    )
    assert not report.patches

"""Conditions that no input reaches are forced, in both programs, to be compared there."""

from __future__ import annotations

import pytest
from planted import HEAD, Gbfix, Planted

from gbfix import loop

CHECKED = """@torch.compile
def f(x):
    sizes = torch.ones(2)
    if sizes.sum() < 0:
        raise ValueError("below")
    return x + 1


print(f(torch.ones(3)))
"""
CHECK = """@torch.library.custom_op("program::check", mutates_args=())
def check(sizes: torch.Tensor) -> None:
    if sizes.sum() < 0:
        raise {error}


check.register_fake(lambda sizes: None)
check.register_effect(torch.library.EffectType.ORDERED)


"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ('ValueError("below")', ""),
        ('ValueError("above")', "above"),
        ('KeyError("below")', "KeyError"),
    ],
    ids=["the same", "another text", "another class"],
)
def test_a_check_that_is_forced_to_fail_ends_both_programs(
    error: str, says: str, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = '    if sizes.sum() < 0:\n        raise ValueError("below")\n'
    new = CHECK.format(error=error) + CHECKED.replace(test, "    check(sizes)\n")
    monkeypatch.setattr(loop, "discover", lambda: [Planted(CHECKED, new)])
    # With one job at a time, nothing is tried at the calls: all of it runs from the start.
    report = gbfix_run(HEAD + CHECKED, jobs=1)
    (attempt,) = report.breaks[0].attempts
    assert attempt.passed is not bool(says), attempt.reason
    assert says in attempt.reason
    if not says:
        assert report.patches[0].verdict.branches == (2, 2)


def test_a_check_is_forced_though_its_region_breaks_elsewhere(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import torch


        def grown(x):
            if x.sum() > 0:
                x = x + 1
            return x


        @torch.compile(backend="aot_eager")
        def f(x):
            limits = torch.ones(2)
            if limits.sum() < 0:
                raise ValueError("low")
            return grown(x)


        print(f(torch.ones(3)))
        """,
        select=("GB0170", "raise-to-op"),
    )
    (patch,) = report.patches
    rung = patch.verdict.rung("branches")
    assert str(patch.safety) == "safe" and rung is not None and rung.detail == "2 of 2 ran"
    assert [region.status for region in report.regions] == ["partial"]

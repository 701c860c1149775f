"""A guard keeps gradients from what is not finite; what takes its place does not."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.choice.loops import LoopToBound
from gbfix_codemods.choice.lower_choice import LowerChoice

from gbfix.codemod import Codemod, NearMiss, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety

_BOOL = tensor(dtype="torch.bool")


def _proposed(codemod: Codemod, source: str, at: str, facts: dict[str, Fact]) -> Rewrite:
    case = NearMiss(textwrap.dedent(source), at=at, why="", facts=facts)
    site = example_site(case, "GB0170")
    return next(made for made in codemod.propose(site) if isinstance(made, Rewrite))


@pytest.mark.parametrize(
    ("test", "arm", "learns", "safety"),
    [
        ("torch.isnan(loss)", "torch.zeros_like(loss)", True, Safety.UNSAFE),
        ("not torch.isfinite(loss)", "torch.zeros_like(loss)", True, Safety.UNSAFE),
        ("loss != loss", "loss.detach() * 0", True, Safety.UNSAFE),
        ("torch.isnan(loss)", "torch.nan_to_num(loss)", True, Safety.SAFE),
        ("torch.isnan(loss)", "torch.zeros_like(loss)", False, Safety.SAFE),
        ("not (loss == loss)", "torch.zeros_like(loss)", True, Safety.UNSAFE),
        ("broken(loss)", "torch.zeros_like(loss)", True, Safety.UNSAFE),
        ("count > 0", "torch.zeros_like(loss)", True, Safety.UNSAFE),
        ("loss > 3", "torch.zeros_like(loss)", True, Safety.SAFE),
    ],
)
def test_a_guard_against_nan_is_more_than_a_choice(
    test: str, arm: str, learns: bool, safety: Safety
) -> None:
    source = f"""
    import torch

    def f(x):
        loss = x.sum()
        count = torch.isinf(x).sum()
        if {test}:
            loss = {arm}
        return loss

    def broken(y):
        return torch.isnan(y)
    """
    loss = tensor(requires_grad=learns)
    facts = {"x": tensor(3, requires_grad=learns), "loss": loss, arm: loss, test: _BOOL}
    facts |= dict.fromkeys(("torch.isnan(loss)", "torch.isfinite(loss)"), _BOOL)
    facts |= {"loss == loss": _BOOL, "count": tensor(dtype="torch.int64")}
    rewrite = _proposed(LowerChoice(), source, test, facts)
    assert rewrite.safety is safety
    assert any("zero times infinity" in note for note in rewrite.notes) is (safety is Safety.UNSAFE)


@pytest.mark.parametrize(
    ("test", "safety"),
    [("torch.isnan(y)", Safety.UNSAFE), ("y < 0.1", Safety.SAFE)],
)
def test_a_loop_that_ends_where_something_is_not_finite(test: str, safety: Safety) -> None:
    source = f"""
    import torch

    def f(x):
        for _ in range(4):
            y = x.sum()
            if {test}:
                break
            x = x * 0.5
        return x
    """
    facts = {"x": tensor(3, requires_grad=True), "y": tensor(requires_grad=True), test: _BOOL}
    facts |= {"x.sum()": tensor(requires_grad=True), "x * 0.5": tensor(3, requires_grad=True)}
    rewrite = _proposed(LoopToBound(), source, test, {**facts, "n": scalar(4)})
    assert rewrite.safety is safety

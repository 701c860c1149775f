"""Rewrites that are unsafe where the text does not show that both forms do the same."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.recipes.call_form import CallForm
from gbfix_codemods.recipes.detached_input import DetachedInput
from gbfix_codemods.recipes.legacy_tensor import LegacyTensor

from gbfix.analysis.tensor_names import OF_TENSORS
from gbfix.codemod import Codemod, NearMiss, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety


def proposed(
    codemod: Codemod, source: str, at: str, facts: dict[str, Fact], code: str = ""
) -> Rewrite:
    case = NearMiss(textwrap.dedent(source), at=at, why="", facts=facts)
    site = example_site(case, code or codemod.codes[0])
    return next(made for made in codemod.propose(site) if isinstance(made, Rewrite))


@pytest.mark.parametrize(
    ("key", "below", "safety"),
    [
        ("len", "", Safety.SAFE),
        ("lambda part: (part.ndim, -part.shape[0])", "", Safety.SAFE),
        ("lambda part: part.cost", "", Safety.UNSAFE),
        ("lambda part: part.numel() / 2", "", Safety.UNSAFE),
        ("len", "try:\n    best([])\nexcept ValueError:\n    pass\n", Safety.UNSAFE),
    ],
)
def test_the_best_by_a_key_is_safe_for_sizes(key: str, below: str, safety: Safety) -> None:
    call = f"max(parts, key={key})"
    source = f"def best(parts):\n    return {call}\n\n\n{below}"
    rewrite = proposed(CallForm(), source, call, {"parts": scalar(1)}, "GB0193")
    assert rewrite.safety is safety


@pytest.mark.parametrize(
    ("line", "safety"), [("size = x.shape", Safety.SAFE), ("pass", Safety.UNSAFE)]
)
def test_a_recorded_size_is_no_promise(line: str, safety: Safety) -> None:
    given = "x, size" if line == "pass" else "x"
    source = f"""
    import torch

    def f({given}):
        {line}
        y = torch.FloatTensor(size)
        return y * 2
    """
    size = Fact("tuple", "torch.Size", items=(scalar(2), scalar(3)))
    rewrite = proposed(LegacyTensor(), source, "y * 2", {"x": tensor(2, 3), "size": size})
    assert rewrite.safety is safety


@pytest.mark.parametrize(
    ("line", "below", "safety"),
    [
        ("pass", "", Safety.SAFE),
        ("pred = pred + target[0]", "", Safety.SAFE),
        ("pred = torch.where(target > 0, pred, target.abs())", "", Safety.SAFE),
        ("kept = target", "", Safety.UNSAFE),
        ("self.same = target is self.last", "", Safety.UNSAFE),
        ("pred = pred * target.weight", "", Safety.UNSAFE),
        ("target.t_()", "", Safety.UNSAFE),
        ("target[0] = 1", "", Safety.UNSAFE),
        ("target = target.float()", "", Safety.UNSAFE),
        ("self.cut = lambda: target", "", Safety.UNSAFE),
        ("self.found.append(target)", "", Safety.UNSAFE),
        ("pass", "print(goal.grad)", Safety.UNSAFE),
        ("pass", "goal = torch.ones(3, requires_grad=True)", Safety.SAFE),
    ],
)
def test_a_detached_argument_is_only_computed_with(line: str, below: str, safety: Safety) -> None:
    source = f"""
    import torch

    def loss(self, pred, target):
        target.requires_grad = False
        {line}
        return (pred - target).sum()

    {below}
    """
    facts = {"pred": tensor(3), "target": tensor(3)}
    rewrite = proposed(DetachedInput(), source, "target.requires_grad = False", facts, "GB0206")
    assert rewrite.safety is safety


def test_the_names_of_tensors_are_all_written_down() -> None:
    torch = pytest.importorskip("torch")
    found = {name for name in dir(torch.nn.Parameter) if not name.startswith("__")}
    assert found <= OF_TENSORS

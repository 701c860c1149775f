"""Rewrites that are unsafe where the text does not show that both forms do the same."""

from __future__ import annotations

import textwrap

import pytest

from codemods.recipes.call_form import CallForm
from gbfix.codemod import Codemod, NearMiss, Rewrite, example_site, scalar
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

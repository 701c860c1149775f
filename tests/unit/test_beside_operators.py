"""Code that an operator runs for calls that it does not take gets no operator of its own."""

from __future__ import annotations

import pytest
from gbfix_codemods.operator.wrap_piece import WrapPiece
from gbfix_codemods.wrap.operator_text import runs_beside_operator

from gbfix.codemod import Example, Rewrite, example_site, tensor

_SOURCE = """import torch


{decorator}
def halve_op(x: torch.Tensor) -> torch.Tensor:
    return {name}(x)


def {name}(x):
    y = x * 0
    for part in x.tolist():
        y = y + part
    return y
"""
_FACTS = {"x": tensor(3), "y": tensor(3)}


@pytest.mark.parametrize(
    ("name", "decorator", "beside"),
    [
        ("halve_op_plain", '@torch.library.custom_op("a::halve_op", mutates_args=())', True),
        ("halve", '@torch.library.custom_op("a::halve_op", mutates_args=())', False),
        ("halve_op_plain", "@torch.no_grad()", False),
    ],
)
def test_what_runs_beside_an_operator_is_left(name: str, decorator: str, beside: bool) -> None:
    source = _SOURCE.format(name=name, decorator=decorator)
    site = example_site(Example(source, "", at="x.tolist()", facts=_FACTS), "GB0033")
    assert runs_beside_operator(site) is beside
    proposed = [it for it in WrapPiece().propose(site) if isinstance(it, Rewrite)]
    assert bool(proposed) is not beside

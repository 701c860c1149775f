"""Which tensors of its caller's an operator adds to, and of which it needs a copy."""

from __future__ import annotations

import pytest
from gbfix_codemods.operator.copied import copied, is_bound_first
from gbfix_codemods.operator.pieces import Piece, pieces
from gbfix_codemods.operator.results import Carries

from gbfix.codemod import Example, example_site, scalar, tensor

_SOURCE = """
import torch


def f(x, given):
    {before}
    for part in x.tolist():
        {inside}
    return total
"""
_FACTS = {
    "x": tensor(4),
    "given": tensor(1),
    "total": tensor(1),
    "part": scalar(0.5, constant=False),
    "x.tolist()": tensor(4),
}


def _piece(before: str, inside: str) -> Piece:
    source = _SOURCE.format(before=before, inside=inside)
    site = example_site(Example(source, "", at="x.tolist()", facts=_FACTS), "GB0033")
    for piece in pieces(site, Carries.TENSORS):
        if isinstance(piece, Piece) and site.text(piece.nodes[0]).startswith("for part"):
            return piece
    raise AssertionError("no piece holds the loop")


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        ("total = torch.zeros(1)", "total += part", ("total",)),
        ("total = torch.zeros(1); other = total", "total += part", ()),
        ("total = given", "total += part", ()),
        ("total = torch.zeros(1)", "total = total + part", ()),
    ],
)
def test_a_tensor_of_the_functions_own_is_copied(
    before: str, inside: str, expected: tuple[str, ...]
) -> None:
    piece = _piece(before, inside)
    assert copied(piece) == expected
    assert not is_bound_first(piece, "total")

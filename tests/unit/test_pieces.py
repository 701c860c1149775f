"""Which pieces of code may become an operator."""

from __future__ import annotations

from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import Example, Rewrite, example_site, tensor

_CAUGHT = """import torch


def f(x, bias):
    try:
        y = x + bias
    except Exception:
        y = x
    return y
"""


def test_no_piece_goes_further_out_than_a_try() -> None:
    """What an operator does not take, its call would refuse outside of the handlers."""
    facts = {"x": tensor(3), "bias": tensor(5), "y": tensor(3)}
    site = example_site(Example(_CAUGHT, "", at="x + bias", facts=facts), "torch-runtime-error")
    found = [item for item in WrapPiece().propose(site) if isinstance(item, Rewrite)]
    assert found
    for rewrite in found:
        operator, _, function = rewrite.edits["example.py"].partition("def f(x, bias):")
        assert "try:" not in operator
        assert "try:" in function

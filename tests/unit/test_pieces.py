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


def test_no_piece_stands_in_a_try_or_takes_it_along() -> None:
    """Inside of it, an operator raises when no handler is there; and what an operator does not
    take, its call would refuse outside of the handlers.
    """
    facts = {"x": tensor(3), "bias": tensor(5), "y": tensor(3)}
    site = example_site(Example(_CAUGHT, "", at="x + bias", facts=facts), "torch-runtime-error")
    assert not [item for item in WrapPiece().propose(site) if isinstance(item, Rewrite)]

"""A clock that is read between parts of one graph: nothing to wrap, and the advice says so."""

from __future__ import annotations

from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import Advice, Example, example_site, tensor

STEP = """
import time

import torch


def step(x, kept):
    start = {0}
    y = x.relu()
    kept.append(start)
    return y
"""


def said(read: str) -> list[str]:
    """What is advised where a statement reads what ``read`` says; no rewrite may come."""
    case = Example(STEP.format(read), "", at=read, facts={"x": tensor(3)}, code="GB0007")
    proposals = list(WrapPiece().propose(example_site(case, "GB0007")))
    assert all(isinstance(item, Advice) for item in proposals)
    return [item.text for item in proposals if isinstance(item, Advice)]


def test_a_clock_gets_advice_of_its_own() -> None:
    (text,) = said("time.perf_counter()")
    assert "around the call of the compiled function" in text


def test_what_is_no_clock_does_not() -> None:
    assert not any("clock" in text for text in said("torch.seed()"))

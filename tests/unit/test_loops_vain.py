"""What Python computes in rounds that run in vain must not fail there."""

from __future__ import annotations

import libcst as cst
import pytest
from gbfix_codemods.choice.loops import _counts_from_zero
from gbfix_codemods.choice.loops_vain import _is_positive


@pytest.mark.parametrize(
    ("text", "zero", "expected"),
    [
        ("i", True, True),
        ("i", False, False),
        ("i + 1", False, True),
        ("2 * (i + 0.5)", False, True),
        ("1 - i / 4", True, False),
        ("j + 1", False, False),
        ("i * scale", True, False),
    ],
)
def test_numbers_that_are_surely_positive(text: str, zero: bool, expected: bool) -> None:
    assert _is_positive(cst.parse_expression(text), {"i"}, zero=zero) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for i in range(n): pass", {"i"}),
        ("for i in range(1, n): pass", {"i"}),
        ("for i in range(-3, n): pass", set()),
        ("for i in range(k, n): pass", set()),
        ("for i, x in enumerate(xs): pass", {"i"}),
        ("for i in xs: pass", set()),
    ],
)
def test_variables_that_count_from_zero(text: str, expected: set[str]) -> None:
    loop = cst.parse_statement(text)
    assert isinstance(loop, cst.For)
    assert _counts_from_zero(loop) == expected

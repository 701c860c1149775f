"""Operators that gbfix made before, within a piece that becomes an operator."""

from __future__ import annotations

import libcst as cst
import pytest
from gbfix_codemods.operator.grown import Plainly, own_operators, remove_unused

from gbfix.codemod import RecordedFacts, Site
from gbfix.schema import Frame, FrameFacts, GraphBreak

TEXT = """
import torch


def near_plain(x):
    return x * 2


@torch.library.custom_op("m::near", mutates_args=())
def near(x: torch.Tensor) -> torch.Tensor:
    return near_plain(x)


# As large as what it is given.
near.register_fake(lambda x: torch.empty_like(x))


def near_pull(ctx, grad):
    return grad * 2


near.register_autograd(near_pull)


@torch.library.custom_op("m::far", mutates_args=())
def far(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def f(x):
    y = near_plain(x) if torch.is_autocast_enabled("cpu") else near(x)
    return y + 1
"""


def _site(text: str) -> Site:
    line = text[: text.index("    y =")].count("\n") + 1
    frame = Frame("m.py", line, "f", 4, line, 9)
    found = GraphBreak("GB0036", "", "", "", (), (frame,), "", frame)
    return Site("m.py", text, found, RecordedFacts(FrameFacts()))


def test_only_operators_with_a_function_beside_them() -> None:
    assert own_operators(_site(TEXT)) == {"near": "near_plain"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("near_plain(x) if torch.is_autocast_enabled() else near(x)", "near_plain(x)"),
        ("near_plain(x) if torch.is_autocast_enabled() else near(y)", None),
        ("g(near(x), far(x))", "g(near_plain(x), far(x))"),
        ("a if near(x) else b", "a if near_plain(x) else b"),
    ],
)
def test_calls_become_plain(before: str, after: str | None) -> None:
    made = cst.parse_expression(before).visit(Plainly({"near": "near_plain"}))
    assert isinstance(made, cst.BaseExpression)
    text = cst.Module([]).code_for_node(made)
    assert text == (after or before.replace("near(y)", "near_plain(y)"))


def _without(text: str) -> str:
    site = _site(text)
    edit = site.edit()
    remove_unused(site, edit, [site.statement])
    return edit.apply().code


def test_what_nothing_else_calls_goes_with_all_that_belongs_to_it() -> None:
    left = _without(TEXT)
    assert "near(x)" in left and "def near_plain" in left and "def far" in left
    assert "m::near" not in left and "near_pull" not in left and "As large" not in left


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return near_plain(x)", "return near_plain(x), x.sum()"),
        ("return near_plain(x)", "return near_plain(x + 1)"),
        ('near", mutates_args=()', 'near", mutates_args=("x",)'),
        ('"m::near"', '"others::near"'),
        ("near.register_autograd(near_pull)", "near.register_effect(ORDERED)"),
    ],
)
def test_an_operator_that_does_more_or_is_not_ours_stays(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert own_operators(_site(text)) == {} and _without(text) == text


@pytest.mark.parametrize("other", ["\n\ndef g(x):\n    return near(x)\n", "\n\nkept = near\n"])
def test_what_something_else_calls_stays(other: str) -> None:
    assert _without(TEXT + other) == TEXT + other

"""Names that are taken, free, and telling."""

from __future__ import annotations

import builtins
import keyword

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbfix.analysis.names import fresh, identifier, names_in, telling_name


def test_every_identifier_is_taken() -> None:
    module = cst.parse_module(
        "import a.b as c\ndef d(e, *f, g=h): return e.i(j=k)\nfor l in m: del n"
    )
    assert names_in(module) == set("abcdefghijklmn")


@pytest.mark.parametrize(
    ("base", "taken", "expected"),
    [
        ("x", (), "x"),
        ("x", ("x",), "x_1"),
        ("x", ("x", "x_1", "x_2"), "x_3"),
        ("sum", (), "sum_1"),
        ("if", (), "if_1"),
        ("match", (), "match_1"),
        ("1x", (), "value_1x"),
        ("", (), "value"),
    ],
)
def test_fresh(base: str, taken: tuple[str, ...], expected: str) -> None:
    assert fresh(base, taken) == expected


@given(st.text(max_size=60), st.sets(st.text(max_size=5)))
def test_a_fresh_name_is_always_usable(base: str, taken: set[str]) -> None:
    name = fresh(base, taken)
    assert name.isidentifier() and name not in taken
    assert not keyword.iskeyword(name) and not hasattr(builtins, name)
    assert cst.parse_expression(name)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("x.sum() > 0", "x_sum_above_0"),
        ("self.gate(h).item() < 3.5", "gate_h_below_3_5"),
        ("not mask.any()", "not_mask_any"),
        ("torch.isnan(x).any()", "isnan_x_any"),
        ("x is None", "x_is_none"),
        ("a and b", "a_and_b"),
        ("x['k']", "x_item"),
        ("lambda: 0", "value"),
        ("self", "value"),
        ("numTokens >= maxLength", "num_tokens_at_least_max_length"),
    ],
)
def test_telling_names(expression: str, name: str) -> None:
    assert telling_name(cst.parse_expression(expression)) == name


def test_a_telling_name_stays_short() -> None:
    long = "very_long_name_of_a_tensor.sum() > another_very_long_name.mean() + 1"
    assert len(telling_name(cst.parse_expression(long))) <= 33


def test_identifiers_are_snake_case() -> None:
    assert identifier("maxPool2d Result") == "max_pool2d_result"

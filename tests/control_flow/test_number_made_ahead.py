"""A tensor that an arm makes of an argument is made ahead, where that is the same."""

from __future__ import annotations

import pytest
from gbfix_codemods.control_flow.ternary_to_cond import TernaryToCond

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact

SOURCE = """
import torch

def f(xs, low: float = 0.1):
    return [x.sum() if x.any() else torch.tensor(low) for x in xs]
"""
FACTS = {
    "x": tensor(3),
    "x.any()": tensor(dtype="torch.bool"),
    "low": scalar(0.1),
    "torch.tensor(low)": tensor(),
    "x.sum()": tensor(),
    "torch.tensor": Fact("function", "function", qualname="torch.tensor"),
}


def first(old: str, new: str, facts: dict[str, Fact] | None = None) -> str:
    case = Example(SOURCE.replace(old, new), "", at="x.any()", facts=FACTS | (facts or {}))
    found = TernaryToCond().propose(example_site(case, "GB0170"))
    return next((item.edits["example.py"] for item in found if isinstance(item, Rewrite)), "")


def test_an_argument_is_taken_out() -> None:
    assert "low_tensor = torch.tensor(low)\n" in first("", "")
    assert "low_tensor.clone()" in first("", "")


def test_a_dtype_goes_with_it() -> None:
    made = "torch.tensor(low, dtype=torch.float32)"
    assert f"low_tensor = {made}\n" in first("torch.tensor(low)", made, {made: tensor()})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return", "    low = low + 1\n    return"),
        ("for x in xs", "for x, low in xs"),
        ("torch.tensor(low)", "torch.tensor(low, device=x.device)"),
        ("torch.tensor(low)", "torch.tensor(low, requires_grad=True)"),
        ("torch.tensor(low)", "torch.tensor([low, low]).sum()"),
    ],
)
def test_what_is_no_argument_alone_stays(old: str, new: str) -> None:
    assert "low_tensor" not in first(old, new)


def test_an_argument_that_is_no_number_stays() -> None:
    text = first("", "", {"low": Fact("none", "NoneType", value=None)})
    assert "low_tensor" not in text

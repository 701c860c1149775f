"""A loop over tensors that returns True or False: who asks for its truth gets a flag."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.loops import LoopToBound

from gbfix.codemod import Example, Rewrite, example_site, tensor
from gbfix.schema import Fact

_FACTS = {"gs": Fact("list", "list", items=(tensor(3), tensor(3))), "g": tensor(3)}


def _source(
    *, says: str = "True", ends: str = "False", use: str = "if bad(gs): return x * 2", to: str = ""
) -> str:
    return f"""import torch


def bad(gs){to}:
    for g in gs:
        if g is None:
            continue
        if torch.isnan(g).any():
            return {says}
    return {ends}


def f(x, gs):
    {use}
    return x
"""


def _new(source: str) -> str:
    case = Example(source, "", at="torch.isnan(g).any()", facts=_FACTS, title="")
    found = LoopToBound().propose(example_site(case, "GB0170"))
    return next((text for it in found if isinstance(it, Rewrite) for text in it.edits.values()), "")


def test_the_flag_of_the_loop_is_what_is_returned() -> None:
    new = _new(_source())
    assert "done = torch.tensor(False)" in new
    assert "done = done | torch.isnan(g).any()" in new
    assert "return done\n" in new and "return True" not in new


def test_a_loop_that_says_no_gives_the_opposite() -> None:
    assert "return torch.logical_not(done)" in _new(_source(says="False", ends="True"))


def test_an_annotation_goes_along() -> None:
    assert "def bad(gs) -> torch.Tensor:" in _new(_source(to=" -> bool"))


@pytest.mark.parametrize(
    "use",
    [
        "return bad(gs)",
        "x = x * bad(gs)",
        "told = bad(gs)",
        "if bad(gs) is True: return x * 2",
        "print(bad(gs))",
        "if bad(gs): return x\n    run(bad)",
        "if bad(gs): return x\n    print('bad')",
    ],
)
def test_a_value_that_is_used_otherwise_stays(use: str) -> None:
    assert not _new(_source(use=use))


@pytest.mark.parametrize(("says", "ends"), [("True", "True"), ("1", "False"), ("True", "None")])
def test_other_values_stay(says: str, ends: str) -> None:
    assert not _new(_source(says=says, ends=ends))


def test_another_annotation_stays() -> None:
    assert not _new(_source(to=" -> int"))

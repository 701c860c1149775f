"""How far a loop over the list beside a tensor may be trusted; the rest are the codemod's cases."""

from __future__ import annotations

import dataclasses

import pytest
from gbfix_codemods.data_dependent.list_beside import ListBeside

from gbfix.codemod import Example, Rewrite, example_site
from gbfix.schema import Safety

LOCAL, HELPER, PARAMETERS = ListBeside.examples


def _proposed(example: Example, old: str = "", new: str = "") -> Rewrite:
    assert old in example.before
    case = dataclasses.replace(example, before=example.before.replace(old, new, 1))
    (rewrite,) = ListBeside().propose(example_site(case, ListBeside.codes[0]))
    assert isinstance(rewrite, Rewrite)
    return rewrite


@pytest.mark.parametrize("example", [LOCAL, HELPER], ids=["local", "helper"])
def test_a_list_of_sizes_that_nobody_else_has_is_safe(example: Example) -> None:
    assert _proposed(example).safety is Safety.SAFE


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("count(sizes)", "`sizes`"),
        ("count(shapes)", "`shapes`"),
        ("view = shapes[0]", "`shapes`"),
        ("maps.append({'sizes': sizes})", "`sizes`"),
    ],
)
def test_what_other_code_may_change_in_between_is_unsafe(line: str, says: str) -> None:
    rewrite = _proposed(LOCAL, "    grids = []\n", f"    grids = []\n    {line}\n")
    assert rewrite.safety is Safety.UNSAFE
    assert says in rewrite.notes[0]


@pytest.mark.parametrize(
    "line", ["print(len(sizes))", "print(shapes.shape)", "for _ in sizes: pass"]
)
def test_what_only_looks_at_them_does_not_count(line: str) -> None:
    rewrite = _proposed(LOCAL, "    grids = []\n", f"    grids = []\n    {line}\n")
    assert rewrite.safety is Safety.SAFE


def test_parameters_that_only_their_names_connect_are_unsafe() -> None:
    rewrite = _proposed(PARAMETERS)
    assert rewrite.safety is Safety.UNSAFE
    assert len(rewrite.notes) == 2 and "overrides" in rewrite.notes[1]


def test_each_call_of_a_helper_that_has_a_list_passes_it() -> None:
    more = "\n\ndef g(x, given):\n    return grids(x, given)\n"
    more += "\n\ndef h(x):\n    own = [(x.size(0), 1)]\n    made = torch.tensor(own)\n"
    more += "    return grids(shapes=made, x=x)\n"
    text = HELPER.before.rstrip() + more
    rewrite = _proposed(HELPER, HELPER.before, text)
    (after,) = rewrite.edits.values()
    assert "return grids(x, given)" in after
    assert "return grids(shapes=own, x=x)" in after
    assert "return grids(x, sizes)" in after

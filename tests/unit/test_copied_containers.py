"""A container passes into an operator as a copy: only what is merely asked may pass."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import NearMiss, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact

_SOURCE = """
import torch

def put(table, key):
    table[key] = len(table)
    return table[key]

def of(table, key):
    return table[key]

def f(x, table, ids):
    rows = torch.tensor([{} for i in ids.tolist()], dtype=torch.int64)
    return x[rows]
"""
_DICT = Fact("dict", "dict", keys=("0", "7"), items=(scalar(1), scalar(0)), holds="int: int")


@pytest.mark.parametrize(
    ("item", "passes"),
    [
        ("table[i]", True),
        ("table.get(i, 0)", True),
        ("table[i] if i in table else len(table)", True),
        ("table.setdefault(i, 0)", False),
        ("table.pop(i)", False),
        ("put(table, i)", False),
        ("of(table, i)", False),
        ("(t := table)[i]", False),
        ("[table][0].pop(i)", False),
    ],
)
def test_a_dict_is_only_asked(item: str, passes: bool) -> None:
    source = textwrap.dedent(_SOURCE).replace("{}", item)
    facts = {
        "x": tensor(4),
        "table": _DICT,
        "ids": tensor(3, dtype="torch.int64"),
        f"torch.tensor([{item} for i in ids.tolist()], dtype=torch.int64)": tensor(
            3, dtype="torch.int64"
        ),
        "rows": tensor(3, dtype="torch.int64"),
    }
    case = NearMiss(source, at="ids.tolist()", why="", facts=facts)
    made = [
        it
        for it in WrapPiece().propose(example_site(case, "GB0033"))
        if isinstance(it, Rewrite) and "table_keys" in "".join(it.edits.values())
    ]
    assert bool(made) is passes


@pytest.mark.parametrize(
    ("line", "inside"),
    [("q = int(round(s * 7))", True), ("q = s * 7", False), ("t = s * 7\n    q = int(t)", True)],
)
def test_a_fraction_that_becomes_a_whole_number_takes_the_line_along(
    line: str, inside: bool
) -> None:
    source = f"""
import torch

def f(x):
    s = max(x.tolist())
    {line}
    return x * q
"""
    kind = scalar(3) if inside else scalar(3.0)
    facts = {
        "x": tensor(4),
        "s": scalar(0.5),
        "t": scalar(3.5),
        "q": kind,
        "max(x.tolist())": scalar(0.5),
    }
    case = NearMiss(source, at="x.tolist()", why="", facts=facts)
    made = [
        it
        for it in WrapPiece().propose(example_site(case, "GB0033"))
        if isinstance(it, Rewrite) and "custom_op" in "".join(it.edits.values())
    ]
    assert made
    operator = next(iter(made[0].edits.values())).split("register_fake")[0]
    assert ("q = " in operator) is inside

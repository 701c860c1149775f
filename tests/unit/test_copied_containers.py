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

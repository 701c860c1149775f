"""What ordered pairs, counted loops and choosing lambdas do after the rewrite, against before."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from branch_programs import check, proposals, rewritten
from gbfix_codemods.control_flow.if_to_cond import IfToCond
from gbfix_codemods.control_flow.order_two import OrderTwo
from gbfix_codemods.control_flow.range_to_loop import RangeToLoop
from gbfix_codemods.control_flow.ternary_to_cond import TernaryToCond
from gbfix_codemods.control_flow.while_to_loop import WhileToLoop

from gbfix.codemod import Codemod, Rewrite, scalar, tensor
from gbfix.schema import Fact, Safety

Inputs = Callable[[], tuple[Any, ...]]
NAN = float("nan")
FLOATS = (1.0, 2.0, 2.0, -0.0, NAN, float("inf"))
IDS = tensor(4, dtype="torch.int64")
N = tensor(dtype="torch.int64")


def points() -> list[Inputs]:
    """All pairs of a few numbers, NaN and equal ones among them."""

    def pair(a: float, b: float) -> Inputs:
        return lambda: (torch.tensor(a), torch.tensor(b))

    return [pair(a, b) for a, b in itertools.product(FLOATS, FLOATS)]


def rows() -> list[Inputs]:
    def pair(a: float, b: float) -> Inputs:
        return lambda: (torch.tensor([a, 1.0]), torch.tensor([b, 1.5]))

    return [pair(a, b) for a, b in itertools.product((0.5, 0.0, 3.0, NAN), repeat=2)]


def counted(*numbers: float, dtype: torch.dtype = torch.int64) -> list[Inputs]:
    def given(n: float) -> Inputs:
        return lambda: (torch.arange(4), torch.tensor(n, dtype=dtype))

    return [given(n) for n in numbers]


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    source: str
    at: str
    facts: Mapping[str, Fact]
    inputs: Sequence[Inputs]
    codemod: type[Codemod]
    grads: bool = True


POINTS = {"a": tensor(), "b": tensor()}
ROWS = {"a": tensor(2), "b": tensor(2), "t": tensor(2)}
PROGRAMS = [
    Program(
        "two numbers in their order, where NaN has none",
        "def f(a, b):\n    low, high = sorted((a, b))\n    return low * 2, high + low\n",
        "sorted((a, b))",
        POINTS,
        points(),
        OrderTwo,
        grads=False,
    ),
    Program(
        "two numbers in falling order, as a list",
        "def f(a, b):\n    pair = sorted([a * 1, b * 1], reverse=True)\n    return pair\n",
        "sorted([a * 1, b * 1], reverse=True)",
        {**POINTS, "a * 1": tensor(), "b * 1": tensor()},
        points(),
        OrderTwo,
    ),
    Program(
        "the larger by a key",
        "def f(a, b):\n    return max(a, b, key=lambda t: t.sum()) * 2 + a + b\n",
        "max(a, b, key=lambda t: t.sum())",
        ROWS,
        rows(),
        OrderTwo,
    ),
    Program(
        "the smaller by a key, in a list",
        "def f(a, b):\n    return min([a, b], key=lambda t: t.sum()) * 2 + a + b\n",
        "min([a, b], key=lambda t: t.sum())",
        ROWS,
        rows(),
        OrderTwo,
    ),
    Program(
        "both by a key, falling",
        "def f(a, b):\n"
        "    first, second = sorted((a, b), key=lambda t: t.sum(), reverse=True)\n"
        "    return first * 2 - second\n",
        "sorted((a, b), key=lambda t: t.sum(), reverse=True)",
        ROWS,
        rows(),
        OrderTwo,
    ),
    Program(
        "as many rounds as a tensor says, also none",
        "def f(ids, n):\n"
        "    for _ in range(int(n)):\n        ids = ids * 2 + 1\n    return ids - 1\n",
        "int(n)",
        {"ids": IDS, "n": N},
        [*counted(2, 0, -3, 1, 5), *counted(2.75, -0.5, dtype=torch.float32)],
        RangeToLoop,
    ),
    Program(
        "the counter takes part, from a number on",
        "def f(ids, n):\n"
        "    for i in range(2, n.item()):\n        ids = ids * i - i * 3\n    return ids - 1\n",
        "n.item()",
        {"ids": IDS, "n": tensor(dtype="torch.uint8"), "i": scalar(1, constant=False)},
        counted(2, 0, 5, 3, dtype=torch.uint8),
        RangeToLoop,
    ),
    Program(
        "a break and a continue",
        "def f(ids, n):\n"
        "    for i in range(int(n)):\n"
        "        if ids.sum() > 40:\n            break\n"
        "        ids = ids + i\n"
        "        if ids.max() > 5:\n            continue\n"
        "        ids = ids * 2\n"
        "    return ids - 1\n",
        "int(n)",
        {
            "ids": IDS,
            "n": N,
            "i": scalar(1, constant=False),
            "ids + i": IDS,
            "ids * 2": IDS,
        },
        counted(2, 0, 9, 30),
        RangeToLoop,
    ),
    Program(
        "an else, which always comes next",
        "def f(ids, n):\n"
        "    for _ in range(int(n)):\n        ids = ids + 3\n"
        "    else:\n        ids = -ids\n"
        "    return ids * 2\n",
        "int(n)",
        {"ids": IDS, "n": N},
        counted(2, 0),
        RangeToLoop,
    ),
    Program(
        "a loop without gradients",
        "@torch.no_grad()\ndef f(x):\n"
        "    v = x * 2\n"
        "    change = v.sum() + 1\n"
        "    while change > 0.1:\n"
        "        new = v.sqrt()\n"
        "        change = (new - v).abs().max()\n"
        "        v = new * 1\n"
        "    return v\n",
        "change > 0.1",
        {"x": tensor(3), "v": tensor(3), "change": tensor(), "new": tensor(3)},
        [lambda: (torch.ones(3),), lambda: (-torch.ones(3),), lambda: (torch.full((3,), 9.0),)],
        WhileToLoop,
    ),
    Program(
        "a lambda that chooses",
        "def f(a, b):\n"
        "    flip = lambda t: t if t.sum() > 0 else -t\n"
        "    return flip(a) * 2 + flip(b - 5)\n",
        "t.sum() > 0",
        ROWS,
        rows(),
        TernaryToCond,
    ),
    Program(
        "a row of tests",
        "def f(a, b):\n    if any(a > b):\n        return a.exp()\n    return b.sin()\n",
        "any(a > b)",
        {**ROWS, "a > b": tensor(2, dtype="torch.bool")},
        rows(),
        IfToCond,
    ),
    Program(
        "a row of numbers, of which NaN counts as true",
        "def f(a, b):\n    if all(a):\n        return a.exp()\n    return b.sin()\n",
        "all(a)",
        ROWS,
        [*rows(), lambda: (torch.zeros(0), torch.zeros(0))],
        IfToCond,
    ),
    Program(
        "a token among some",
        "def f(ids, n):\n"
        "    stops = [ids[0], ids[1] * 2]\n"
        "    if n in stops:\n        return ids * 2\n    return ids + 1\n",
        "n in stops",
        {"ids": IDS, "n": N, "stops": Fact("list", "list", items=(N, N))},
        counted(0, 1, 2),
        IfToCond,
    ),
    Program(
        "a token not among some, of which there may be none",
        "def f(ids, n):\n"
        "    stops = list(ids[:0])\n"
        "    if n not in stops:\n        return ids * 2\n    return ids + 1\n",
        "n not in stops",
        {"ids": IDS, "n": N, "stops": Fact("list", "list", items=(N, N))},
        counted(0, 1),
        IfToCond,
    ),
    Program(
        "the least is asked for before the largest",
        "def f(a, b):\n"
        "    if a.min() > 0 and a.max() < 2:\n        return b.exp()\n    return b * 2\n",
        "a.min() > 0",
        {**ROWS, "a.min()": tensor(), "a.max()": tensor()},
        [*rows(), lambda: (torch.zeros(0), torch.ones(2))],
        IfToCond,
    ),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_rewrite_does_what_the_program_did(program: Program) -> None:
    after = rewritten(program.codemod(), program.source, program.at, program.facts)
    check(program.source, after, program.inputs, grads=program.grads)


@pytest.mark.parametrize(
    ("around", "inside", "safety"),
    [
        ("torch.no_grad()", "torch.no_grad()", Safety.SAFE),
        ("torch.no_grad()", "torch.enable_grad()", Safety.UNSAFE),
        ("torch.enable_grad()", "torch.no_grad()", Safety.UNSAFE),
        ("torch.set_grad_enabled(flag)", "torch.no_grad()", Safety.UNSAFE),
    ],
)
def test_a_loop_is_unguarded_only_where_gradients_are_surely_off(
    around: str, inside: str, safety: Safety
) -> None:
    source = f"""
    def f(x, w, flag):
        with {around}:
            v = x * 2
            while v.sum() > 1:
                with {inside}:
                    v = v.sqrt() * w
        return v.sum()
    """
    facts = {"x": tensor(3), "w": tensor(3), "v": tensor(3), "flag": scalar(True)}
    found = list(proposals(WhileToLoop(), source, "v.sum() > 1", facts))
    assert all(item.safety is safety for item in found if isinstance(item, Rewrite)), found
    assert safety is Safety.UNSAFE or isinstance(found[0], Rewrite), found

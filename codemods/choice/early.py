"""Exits that Python decides within a choice: Python is asked first, and the choice stands below.

``if t: x = g(x); if flag: return x`` cannot be one select: whether there is a result at all is
Python's.  ``if flag: ... else: ...`` around two choices can, where asking early asks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.tree import walk

from .context import Context, Declined

Parts = tuple[cst.BaseExpression, str, cst.BaseExpression]
Block = Sequence[cst.BaseStatement]


def first_exit(
    node: cst.If,
    parts_of: Callable[[cst.If], Parts | None],
    arms_of: Callable[[cst.If], tuple[Block, Block]],
) -> tuple[cst.If, Parts] | None:
    """The first ``if`` in the arms in which Python has a say and that leaves the block."""
    for arm in arms_of(node):
        for statement in arm:
            if not isinstance(statement, cst.If) or not exits(statement).jumps:
                continue
            parts = parts_of(statement)
            found = (statement, parts) if parts else first_exit(statement, parts_of, arms_of)
            if found is not None:
                return found
    return None


def check_early(test: cst.BaseExpression, around: cst.If, ctx: Context) -> None:
    """Raise `Declined` unless the test gives the same, and no error, before the choice.

    ``around`` is the choice, with all that may run before the test does.
    """
    names, attributes = set(), False
    for part in walk(test):
        if isinstance(part, cst.Call):
            called = ctx.resolve(part.func)
            if called.removeprefix("builtins.") not in ("isinstance", "len", "bool"):
                raise Declined("a branch is left where Python has a say in it")
        if isinstance(part, cst.NamedExpr | cst.Lambda | cst.BaseComp | cst.Await):
            raise Declined("a branch is left where Python has a say in it")
        if isinstance(part, cst.Name):
            names.add(part.value)
        attributes |= isinstance(part, cst.Attribute)
    done = activity(around)
    if names & (done.writes | done.mutates | done.deletes):
        raise Declined("a branch changes what Python is asked when it is left")
    for side in _ordered(test):
        # What is no number, say None, has no order: it may be asked behind another test alone.
        if not ctx.is_number(side):
            raise Declined("a branch is left where Python has a say in it")
    if attributes and (done.attribute_writes or _calls_self(around, ctx)):
        raise Declined("a branch may change what Python is asked when it is left")


def _ordered(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Names and attributes that the test compares by their order, or computes with."""
    found: list[cst.BaseExpression] = []
    orders = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
    for part in walk(test):
        sides: list[cst.BaseExpression] = []
        match part:
            case cst.Comparison(left=left, comparisons=targets):
                if any(isinstance(target.operator, orders) for target in targets):
                    sides = [left, *(target.comparator for target in targets)]
            case cst.BinaryOperation(left=left, right=right):
                sides = [left, right]
        found += [side for side in sides if isinstance(side, cst.Name | cst.Attribute)]
    return found


def _calls_self(node: cst.CSTNode, ctx: Context) -> bool:
    for call in walk(node):
        match call:
            case cst.Call(func=cst.Attribute(value=cst.Name("self")) as func):
                fact = ctx.fact(func)
                if fact is None or fact.kind != "module":
                    return True
    return False

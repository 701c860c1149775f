"""Python numbers that a loop counts, and whose value after it data decide: ``return x, steps``.

A number that every round counts stays a number in the loop, and a tensor beside it remembers what
it was when data ended the loop.  One that is bound below such a test (``converged = True``) is a
tensor in the loop.  Behind the loop, both are Python numbers again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import walk
from gbfix.schema import Fact

from ..control_flow.values import Values

_KINDS = ("int", "bool")


@dataclasses.dataclass(frozen=True)
class Number:
    """A number of the loop.

    ``name`` is its own, ``kept`` that of the tensor: the same where the loop holds no number.
    """

    name: str
    kept: str

    @property
    def beside(self) -> bool:
        return self.kept != self.name


def is_number(fact: Fact | None) -> bool:
    return fact is not None and fact.kind in _KINDS and fact.type == fact.kind


def is_set_plainly(name: str, loop: cst.For | cst.While, values: Values) -> bool:
    """Whether the loop only gives the name numbers that no tensor holds."""
    bindings = list(_bindings(name, loop))
    # One name by one: what unpacks, `with` or a nested `for` gives is not followed.
    if any(
        name in activity(node).writes and node not in bindings
        for node in walk(loop.body)
        if isinstance(node, cst.BaseSmallStatement | cst.NamedExpr)
    ) or any(
        name in activity(node.target).reads
        for node in walk(loop.body)
        if isinstance(node, cst.For | cst.CompFor)
    ):
        return False
    for node in bindings:
        match node:
            case cst.AugAssign(operator=cst.AddAssign() | cst.SubtractAssign()) | cst.Assign():
                if not _is_plain(node.value, name, values):
                    return False
            case _:
                return False
    return True


def is_set_alone(name: str, loop: cst.For | cst.While) -> bool:
    """Whether the loop reads the name for nothing but its own next value."""
    own = {part for node in _bindings(name, loop) for part in walk(node)}
    attributes = {node.attr for node in walk(loop) if isinstance(node, cst.Attribute)}
    keywords = {node.keyword for node in walk(loop) if isinstance(node, cst.Arg)}
    return all(
        node in own | attributes | keywords
        for node in walk(loop)
        if isinstance(node, cst.Name) and node.value == name
    )


def _bindings(name: str, loop: cst.For | cst.While) -> Iterator[cst.Assign | cst.AugAssign]:
    for node in walk(loop.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(bound))]) if bound == name:
                yield node
            case cst.AugAssign(target=cst.Name(bound)) if bound == name:
                yield node


def _is_plain(value: cst.BaseExpression, name: str, values: Values) -> bool:
    """Whether a value is a literal, another number, or one of these plus or minus another."""
    match value:
        case cst.Integer() | cst.Name("True") | cst.Name("False"):
            return True
        case cst.Name(other):
            return other == name or is_number(values.fact(value))
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract()):
            return _is_plain(value.left, name, values) and _is_plain(value.right, name, values)
    return is_number(values.fact(value)) and not any(isinstance(n, cst.Call) for n in walk(value))


def describe(numbers: Sequence[Number]) -> str:
    names = " and ".join(f"`{number.name}`" for number in numbers)
    return (
        f"{names} {'comes' if len(numbers) == 1 else 'come'} out of a tensor behind the loop, which"
        " a setting of Dynamo keeps in the graph"
    )

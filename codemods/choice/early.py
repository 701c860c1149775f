"""Exits that Python decides within a choice: Python is asked first, and the choice stands below.

``if t: x = g(x); if flag: return x`` cannot be one select: whether there is a result at all is
Python's.  ``if flag: ... else: ...`` around two choices can, where asking early asks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.torch_names import BOOL_ATTRIBUTES, INT_ATTRIBUTES
from gbfix.analysis.tree import code, walk

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
    if not _is_total(test, ctx):
        raise Declined("a branch returns early, and a Python condition decides about that, too")
    names = {part.value for part in walk(test) if isinstance(part, cst.Name)}
    attributes = any(isinstance(part, cst.Attribute) for part in walk(test))
    done = activity(around)
    if ctx.function is not None:
        local = activity(ctx.function.body).bound
        if names & local - definitely_bound_before(ctx.function, ctx.original(around)):
            raise Declined("a name in the Python condition may not be bound before the branch")
    if names & (done.writes | done.mutates | done.deletes):
        raise Declined(
            "a branch changes a name in the Python condition that decides how it is left"
        )
    if attributes and (done.attribute_writes or _calls_self(around, ctx)):
        raise Declined(
            "a branch may change what the Python condition reads that decides how it is left"
        )


def _is_total(node: cst.BaseExpression, ctx: Context) -> bool:
    """Whether asking can neither fail nor do anything, whoever asks when."""
    match node:
        case cst.Name() | cst.BaseNumber() | cst.SimpleString():
            return True
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
            return not _is_defined(name, ctx)
        case cst.Attribute(value=cst.Name() as owner, attr=cst.Name(name)):
            metadata = {"shape", "dtype", "device"} | INT_ATTRIBUTES | BOOL_ATTRIBUTES
            return name in metadata and ctx.is_tensor(owner)
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape")) as shape):
            return _is_total(shape, ctx) and code(node.slice[0]).lstrip("-").isdigit()
        case cst.Subscript(value=cst.Name(), slice=[cst.SubscriptElement(slice=cst.Index())]):
            return _is_option(node, ctx)
        case cst.BinaryOperation(
            left=left, operator=cst.Modulo() | cst.FloorDivide(), right=cst.Integer() as right
        ):
            return right.evaluated_value != 0 and _is_size(left, ctx)
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _is_total(inner, ctx)
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_size(inner, ctx)
        case cst.BooleanOperation(left=left, right=right):
            return _is_total(left, ctx) and _is_total(right, ctx)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply()):
            return _is_size(node.left, ctx) and _is_size(node.right, ctx)
        case cst.Comparison():
            return _compares_totally(node, ctx)
        case cst.Call(func=cst.Name("isinstance" | "bool")):
            return all(_is_total(arg.value, ctx) for arg in node.args)
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=cst.Name() as owner)]):
            fact = ctx.fact(owner)
            return fact is not None and fact.kind in ("tensor", "list", "tuple", "dict", "str")
    return False


def _is_option(node: cst.Subscript, ctx: Context) -> bool:
    """``options["index"]``, a number in a plain dictionary: a call without it raises an error."""
    index = node.slice[0].slice
    fact, owner = ctx.fact(node), ctx.fact(node.value)
    named = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
    plain = owner is not None and owner.type.removeprefix("builtins.") == "dict"
    return named and plain and fact is not None and fact.is_python_scalar


def _compares_totally(node: cst.Comparison, ctx: Context) -> bool:
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    plain = cst.Is | cst.IsNot | cst.Equal | cst.NotEqual
    if all(isinstance(target.operator, plain) for target in node.comparisons):
        return all(_is_total(side, ctx) for side in sides)
    if any(isinstance(target.operator, cst.In | cst.NotIn) for target in node.comparisons):
        return False
    # What is no number, say None, has no order: it may be asked behind another test alone.
    return all(_is_size(side, ctx) for side in sides)


def _is_size(node: cst.BaseExpression, ctx: Context) -> bool:
    """Whether the expression is a number, whatever is given."""
    sized = isinstance(node, cst.Subscript | cst.Call | cst.BinaryOperation | cst.UnaryOperation)
    return _is_total(node, ctx) and (sized or ctx.is_number(node))


def _is_defined(name: str, ctx: Context) -> bool:
    """Whether the class defines the name: a property runs code when it is asked."""
    owner = ctx.site.class_of(ctx.scope)
    return owner is not None and any(
        isinstance(node, cst.FunctionDef) and node.name.value in (name, "__getattr__")
        for node in walk(owner)
    )


def _calls_self(node: cst.CSTNode, ctx: Context) -> bool:
    for call in walk(node):
        match call:
            case cst.Call(func=cst.Attribute(value=cst.Name("self")) as func):
                fact = ctx.fact(func)
                if fact is None or fact.kind != "module":
                    return True
    return False

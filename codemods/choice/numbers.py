"""Which dtype a Python number gets that a tensor chooses: that which its users cannot tell."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.tree import walk
from gbfix.codemod import SiteError

from .context import Context

_WHOLE = ["torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.bool"]


def dtype_for(
    ctx: Context, node: cst.CSTNode, name: str = "", test: cst.CSTNode | None = None
) -> str:
    """The text of a dtype for a number, or "" where its users could tell it from a number.

    Beside a tensor with dimensions a number without any never widens the result: float64 keeps all
    its digits.  Beside one without dimensions it has to have that one's dtype.
    """
    users = list(_users(ctx, node, name))
    if not users:
        return ""
    dtypes = set()
    for other in users:
        fact = ctx.fact(other)
        if fact is None or not fact.is_tensor:
            return ""
        if fact.dtype in _WHOLE:
            dtypes.add(f"{ctx.torch}.float32")
        elif fact.shape == () or fact.shape is None:
            known = _dtype_of(ctx, other, test if test is not None else node, node, name)
            # Tensors of several shapes, as a model's parameters: of none, the run would tell.
            several = known == "?" and fact.shape is None
            dtypes.add(f"{ctx.torch}.float64" if several else known)
        else:
            dtypes.add(f"{ctx.torch}.float64")
    if len(dtypes) != 1 or "?" in dtypes:
        return ""
    return dtypes.pop()


def _dtype_of(
    ctx: Context, other: cst.BaseExpression, around: cst.CSTNode, node: cst.CSTNode, name: str
) -> str:
    """The dtype of a tensor without dimensions, by a name that is bound before the choice.

    ``name`` gets the number: what it holds before may be none.
    """
    assert ctx.function is not None
    bound = definitely_bound_before(ctx.function, ctx.original(node))
    if isinstance(other, cst.Name) and other.value in bound:
        return f"{other.value}.dtype"
    for inner in walk(around):
        if isinstance(inner, cst.Name) and inner.value in bound - {name}:
            fact = ctx.kind_of(inner)
            if fact is not None and fact.is_tensor and fact.dtype not in _WHOLE:
                return f"{inner.value}.dtype"
    return "?"


def _users(ctx: Context, node: cst.CSTNode, name: str) -> list[cst.BaseExpression]:
    """What stands beside the number wherever it is used; empty where a use is not understood."""
    places: list[cst.CSTNode]
    if name:
        if ctx.function is None:
            return []
        places = [
            place
            for place in ctx.site.places_of(name, ctx.function.body)
            if not isinstance(ctx.site.parent(place), cst.AssignTarget)
        ]
        reached = _until_bound_anew(ctx, node, name)
        if reached is not None:
            places = [place for place in places if place in reached]
    else:
        places = [it for it in walk(node) if isinstance(it, cst.IfExp)]
        match node:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(bound))], value=value)]
            ) if places == [value]:
                return _users(ctx, node, bound)
    found: list[cst.BaseExpression] = []
    for place in places:
        other = beside_number(ctx, place)
        if other is None:
            return []
        found += other
    return found


def _until_bound_anew(ctx: Context, node: cst.CSTNode, name: str) -> set[cst.CSTNode] | None:
    """Nodes that run before the block of the choice binds the name anew; None if it does not."""
    statement = ctx.original(node)
    try:
        block = ctx.site.block_of(statement)
    except (KeyError, SiteError):
        return None
    found: set[cst.CSTNode] = set()
    place = next((n for n, it in enumerate(block) if it is statement), len(block))
    for after in block[place + 1 :]:
        found.update(walk(after))
        match after:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(bound))])]
            ) if bound == name:
                return found
    return None


def beside_number(ctx: Context, place: cst.CSTNode) -> list[cst.BaseExpression] | None:
    """The tensors with which a number at this place is computed; None where something else is."""
    parent = ctx.site.parent(place)
    match parent:
        case cst.BinaryOperation(left=left, right=right):
            other = right if left is place else left
            if ctx.is_tensor(other):
                return [other]
            if ctx.is_number(other):
                return beside_number(ctx, parent)
        case cst.UnaryOperation():
            return beside_number(ctx, parent)
        case cst.AugAssign(target=target) if ctx.is_tensor(target):
            return [target]
        case cst.Arg():
            call = ctx.site.parent(parent)
            if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
                name = call.func.attr.value.rstrip("_")
                known = ("mul", "div", "add", "sub", "pow", "lerp", "clamp", "clamp_min")
                if name in known and ctx.is_tensor(call.func.value):
                    return [call.func.value]
    return None
